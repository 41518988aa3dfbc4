import { createFsyncProbe, interleave, ratioOf } from '../measure.mjs';
import { openRaw } from '../raw-sqlite.mjs';
import { DURABILITIES, reopenLong } from '../workbench.mjs';

export const row3 = {
  id: 'row3',
  title: 'save ÷ raw SQLite insert of the new message alone, draft-made state, at message 5,000',
  run,
};

const TARGETS = { power: 1.5, process: 5 };

async function run(workbench) {
  for (const { durability, synchronous, label } of DURABILITIES) {
    const probe = createFsyncProbe(workbench.folder);
    const { manager, growing } = await reopenLong(workbench, { durability, seed: 3 });
    const raw = openRaw(workbench.newPath(), synchronous);
    fillRaw(raw, growing.state.messages);
    // The side that goes first in a round grows the state, so that both write the same message.
    const made = new Map();
    const stateOf = (round) => {
      if (!made.has(round)) made.clear();
      if (!made.has(round)) made.set(round, growing.grow());
      return made.get(round);
    };
    const insert = { prepare: (round) => JSON.stringify(stateOf(round).messages.at(-1)), run: raw.insert };
    const save = { prepare: stateOf, run: growing.side.run };
    const sides = await interleave(
      { save, insert, 'fsync probe': probe },
      { rounds: workbench.rounds(400), warmup: 30 },
    );
    await manager.close();
    raw.close();
    probe.close();
    workbench.report.line({
      what: `save ÷ insert, ${label}`,
      ...ratioOf(sides.save, sides.insert),
      target: { atMost: TARGETS[durability] },
      sides,
    });
  }
}

/** The floor's table is as long as our session. */
function fillRaw({ db, insert }, messages) {
  db.exec('BEGIN');
  for (const message of messages) insert(JSON.stringify(message));
  db.exec('COMMIT');
}
