import { createFsyncProbe, interleave, ratioOf } from '../measure.mjs';
import { createMessages } from '../messages.mjs';
import { DURABILITIES, extend, frozenState, GrowingSession, reopenLong } from '../workbench.mjs';

export const row1 = { id: 'row1', title: 'save at message 5,000 ÷ save at message 100, draft-made state', run };

/** The small sessions are replaced before they leave the neighbourhood of 100 messages. */
const SMALL_FROM = 75;
const SMALL_SAVES = 50;
const ROUNDS = 200;
const WARMUP = 20;

async function run(workbench) {
  for (const { durability, label } of DURABILITIES) {
    const rounds = workbench.rounds(ROUNDS);
    const probe = createFsyncProbe(workbench.folder);
    const { manager, growing } = await reopenLong(workbench, { durability });
    const smalls = await openSmall(manager, Math.ceil((rounds + WARMUP) / SMALL_SAVES));
    const at = (round) => smalls[Math.floor(round / SMALL_SAVES)].side;
    const small = { prepare: (round) => at(round).prepare(), run: (state, round) => at(round).run(state) };
    const sides = await interleave(
      { 'at 5,000': growing.side, 'at 100': small, 'fsync probe': probe },
      { rounds, warmup: WARMUP },
    );
    await manager.close();
    probe.close();
    workbench.report.line({
      what: `save at 5,000 ÷ at 100, ${label}`,
      ...ratioOf(sides['at 5,000'], sides['at 100']),
      target: { atMost: 1.2 },
      sides,
    });
  }
}

/** Each session has messages of its own: a message that is stored already would cost nothing. */
async function openSmall(manager, count) {
  const growing = [];
  for (let at = 0; at < count; at++) {
    const session = await manager.session(`small-${at}`);
    const seed = 100 + at;
    growing.push(
      new GrowingSession(session, await extend(session, frozenState([]), createMessages(SMALL_FROM, seed)), seed),
    );
  }
  return growing;
}
