// An agent gets stuck. How soon is that noticed, and what does it save to go back to the last healthy checkpoint?
//   node examples/experiments/drift.mjs [runs]
// The agent reads twelve pages, one a step. In every second run it gets stuck at some page and fetches it again and again, in other words
// each time. The watch sees the calls and their results; nobody tells it which run is which.
import { CheckpointManager, InMemoryCheckpointStorage } from 'savestate';
import { DriftDetector } from 'savestate/drift';

const RUNS = Number(process.argv[2] ?? 40);
const PAGES = 12;
const MAX_CALLS = 60;
const TOPICS = 'rivers bridges harbours canals floods ferries locks mills springs deltas glaciers wells'.split(' ');

/** What a page says: nothing of it is in another one. */
const pageOf = (n) =>
  `Page ${n} is about ${TOPICS[n - 1]}: ${Array.from({ length: 8 }, (_, at) => `${TOPICS[n - 1]}-${at}`).join(', ')}.`;

/** One run; `stuckAt` is the page where it gets stuck, 0 for never. `isWatched`: it goes back when drift is noticed. */
async function run({ stuckAt, isWatched }) {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('reader');
  const detector = new DriftDetector();
  let state = { read: [], notes: [] };
  let [calls, noticedAfter] = [0, 0];
  while (state.read.length < PAGES && calls < MAX_CALLS) {
    const next = state.read.length + 1;
    const isStuck = next === stuckAt && !state.notes.includes('skip the index page');
    const [input, text] = isStuck
      ? [{ url: '/index', attempt: ++calls }, 'The index is being rebuilt. Try again.']
      : [{ url: `/page/${next}`, attempt: ++calls }, pageOf(next)];
    detector.observe({ kind: 'call', agent: 'reader', name: 'fetch', input: { url: input.url } });
    const { status } = detector.observe({ kind: 'result', agent: 'reader', name: 'fetch', text });
    if (!isStuck) {
      state.read.push(next);
      await session.save(state);
    }
    if (status !== 'drifting') continue;
    noticedAfter ||= calls - stuckAt + 1;
    if (!isWatched) continue;
    state = structuredClone((await manager.load(session.head.id)) ?? { read: [], notes: [] });
    state.notes.push('skip the index page'); // what the loop does: the last healthy state, with a note of what happened
    detector.reset();
  }
  await manager.close();
  return { calls, noticedAfter, isDone: state.read.length === PAGES };
}

const mean = (values) => (values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)).toFixed(1);

console.log('runs | watched | finished | noticed | after so many stuck calls (mean) | calls a run (mean)');
for (const isStuck of [false, true]) {
  for (const isWatched of [false, true]) {
    const results = [];
    for (let n = 0; n < RUNS; n++) results.push(await run({ stuckAt: isStuck ? 2 + (n % (PAGES - 1)) : 0, isWatched }));
    const noticed = results.filter(({ noticedAfter }) => noticedAfter !== 0);
    const cells = [
      `${RUNS} ${isStuck ? 'stuck' : 'healthy'}`,
      isWatched ? 'yes' : 'no',
      results.filter(({ isDone }) => isDone).length,
      noticed.length,
      noticed.length === 0 ? '-' : mean(noticed.map(({ noticedAfter }) => noticedAfter)),
      mean(results.map(({ calls }) => calls)),
    ];
    console.log(cells.join(' | '));
  }
}
