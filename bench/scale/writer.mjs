// One process of writers: each begins sessions, fills them in two saves, and says how long the saves took.
import { setTimeout as sleep } from 'node:timers/promises';
import { CheckpointManager } from '../../dist/index.js';
import { PostgresCheckpointStorage } from '../../dist/storage/postgres/index.js';

const { url, schema, writers, sessions, messages, name } = JSON.parse(process.argv[2]);
const storage = new PostgresCheckpointStorage({
  connectionString: url,
  schema,
  maxConnections: writers,
  retryForMs: 900_000,
});
const manager = new CheckpointManager({ storage, retention: { types: {} } });
const timesMs = [];
const errors = {};
let begun = 0;

/** Like what people and models write, and no two alike: nothing is stored once for many. */
const message = (session, n) => ({
  role: n % 2 === 0 ? 'user' : 'assistant',
  content: `${session} ${n} ${`${Math.random()} words that differ `.repeat(30)}`,
});

async function fill(id) {
  const session = await manager.session(id, { initial: { messages: [] } });
  const state = { messages: [] };
  for (const count of [messages / 2, messages]) {
    while (state.messages.length < count) state.messages.push(message(id, state.messages.length));
    const startedMs = performance.now();
    await session.save(state, { userId: `user ${begun % 100}` });
    timesMs.push(performance.now() - startedMs);
  }
  await session.close();
}

async function write() {
  while (begun < sessions) {
    try {
      await fill(`${name}-${begun++}`);
    } catch (error) {
      errors[error.code ?? error.name] = (errors[error.code ?? error.name] ?? 0) + 1;
      await sleep(100);
    }
  }
}

const reporting = setInterval(() => process.send({ saved: timesMs.length }), 200);
await Promise.all(Array.from({ length: writers }, write));
clearInterval(reporting);
process.send({ saved: timesMs.length, timesMs, errors, cpu: process.cpuUsage() }, () =>
  manager.close().then(() => process.disconnect()),
);
