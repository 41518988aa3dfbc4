// What does a save cost as a conversation grows?
//   node examples/experiments/save-cost.mjs [messages]
// Saves a conversation after every message, in SQLite, and compares with writing the whole state each time.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';

const MESSAGES = Number(process.argv[2] ?? 2000);
const WORDS = 'order parcel refund invoice Tuesday address customer please shipped waiting price thank you'.split(' ');

/** Message number `n`, always the same: about 120 characters. */
function messageOf(n) {
  const words = Array.from({ length: 17 }, (_, at) => WORDS[(n * 7 + at * (n % 11) + at) % WORDS.length]);
  return { id: n, role: n % 2 === 0 ? 'user' : 'assistant', content: words.join(' ') };
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

const MARKS = [10, 100, 500, 1000, 2000, 5000, MESSAGES];

const folder = mkdtempSync(join(tmpdir(), 'savestate-experiment-'));
const path = join(folder, 'chat.db');
const open = async () => {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  return { manager, session: await manager.session('chat') };
};

let { manager, session } = await open();
const state = { messages: [] };
let [wholeBytes, timesMs] = [0, []];
console.log('messages | one state, kB | ms a save (median) | the file, kB | all states written out, kB | times less');
for (let n = 1; n <= MESSAGES; n++) {
  state.messages.push(messageOf(n));
  const startedMs = performance.now();
  await session.save(state);
  timesMs.push(performance.now() - startedMs);
  const stateBytes = JSON.stringify(state).length;
  wholeBytes += stateBytes;
  if (!MARKS.includes(n)) continue;
  await manager.close(); // the log goes into the file
  const { size } = statSync(path);
  const cells = [stateBytes / 1000, median(timesMs), size / 1000, wholeBytes / 1000, wholeBytes / size];
  console.log([n, ...cells.map((cell, at) => cell.toFixed(at === 1 ? 2 : 1))].join(' | '));
  timesMs = [];
  ({ manager, session } = await open());
}
const { status, checkpoints } = await manager.verify();
console.log(`${checkpoints} checkpoints can be loaded; verify: ${status}.`);
await manager.close();
rmSync(folder, { recursive: true });
