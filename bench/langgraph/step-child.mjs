import { createFsyncProbe, interleave } from '../measure.mjs';
import { GrowingSession, longState, openManager } from '../workbench.mjs';
import { openContestant } from './contestants.mjs';
import { GrowingThread } from './conversation.mjs';

/** Steps of a thread at several lengths beside a bare save, process-safe, in one process; the answer goes to the standard output as JSON. */
const { lengths, bareLength, rounds, place } = JSON.parse(process.argv[2]);
/** A thread is replaced before it has grown by half. */
const STEPS_OF_ONE = 50;

const { saver, close } = await openContestant('our SQLite, process-safe', place);
const manager = openManager(`${place.folder}/bare.db`, { durability: 'process' });
const probe = createFsyncProbe(place.folder);
const sides = { 'bare save': await bareSave(), 'fsync probe': probe };
for (const length of lengths) sides[`step at ${length}`] = growing(length);
const measured = await interleave(sides, { rounds, warmup: Math.max(100, rounds / 10) });
probe.close();
await manager.close();
await close();
process.stdout.write(JSON.stringify(measured));

function growing(length) {
  let thread;
  let made = 0;
  return {
    prepare: async () => {
      if (thread === undefined || (made % STEPS_OF_ONE === 0 && STEPS_OF_ONE > length / 10)) {
        thread = new GrowingThread(saver, `thread ${length} ${made}`, length + made);
        await thread.beginWith(length);
      }
      made++;
      return thread.prepare();
    },
    run: (prepared) => thread.save(prepared),
  };
}

async function bareSave() {
  const session = await manager.session('bare');
  const state = longState(bareLength);
  await session.save(state);
  return new GrowingSession(session, state, 1).side;
}
