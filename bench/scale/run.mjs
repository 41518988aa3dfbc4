// PostgreSQL at size on this machine: sessions begun and filled by 64 writers in 8 processes, with prune and gc beside them, while the
// server is killed and started again in the middle. Not part of the tests.
//   npm run build && node bench/scale/run.mjs --scale 0.01
// At 1 (the default) it makes 100,000 sessions and about 10 million chunks, needs some 30 GB of disk, and takes hours.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { CheckpointManager } from '../../dist/index.js';
import { PostgresCheckpointStorage } from '../../dist/storage/postgres/index.js';
import { startPostgres } from '../postgres-server.mjs';

const SESSIONS = 100_000;
const MESSAGES = 100;
const PROCESSES = 8;
const WRITERS = 8;
const SAMPLE = 200;
const SCHEMA = 'scale';

const { values } = parseArgs({ options: { scale: { type: 'string', default: '1' } } });
const scale = Number(values.scale);
if (!(scale > 0 && scale <= 1)) throw new Error(`--scale is a number above 0 and up to 1; found ${values.scale}.`);
const sessions = Math.max(PROCESSES, Math.round(SESSIONS * scale));

const server = await startPostgres();
await server.createDatabase('scale');
const url = server.url.replace(/postgres$/, 'scale');
const open = () => new PostgresCheckpointStorage({ connectionString: url, schema: SCHEMA, retryForMs: 900_000 });
const manager = new CheckpointManager({ storage: open() });
await manager.stats(); // makes the tables

const start = (program, config) =>
  fork(new URL(`${program}.mjs`, import.meta.url), [JSON.stringify({ url, schema: SCHEMA, ...config })]);
const startedMs = performance.now();
const progress = new Map();
const writers = Array.from({ length: PROCESSES }, (_, n) => {
  const child = start('writer', {
    name: `writer-${n}`,
    writers: WRITERS,
    sessions: Math.ceil(sessions / PROCESSES),
    messages: MESSAGES,
  });
  const last = {};
  child.on('message', (said) => progress.set(n, Object.assign(last, said)));
  return once(child, 'exit').then(() => last);
});
const cleaner = start('cleaner', {});
const cleaned = once(cleaner, 'message');

/** The server goes without a word in the middle, and comes back: what was acknowledged is there. */
const saved = () => [...progress.values()].reduce((sum, { saved: count }) => sum + count, 0);
while (saved() < sessions) await new Promise((resolve) => setTimeout(resolve, 100));
const outageMs = await server.crash();

const results = await Promise.all(writers);
const seconds = (performance.now() - startedMs) / 1000;
cleaner.send('stop');
const [{ runs }] = await cleaned;

const stats = await manager.stats();
const times = results.flatMap(({ timesMs }) => timesMs).sort((a, b) => a - b);
const quantile = (part) => times[Math.floor(times.length * part)]?.toFixed(1);
const writerCpu = results.reduce((sum, { cpu }) => sum + cpu.user + cpu.system, 0) / 1e6;
const list = (await manager.list({}, { limit: SAMPLE })).checkpoints;
let damaged = 0;
for (const { id } of list) if (((await manager.load(id)).messages.length ?? 0) === 0) damaged++;
const bytes = await server.databaseBytes('scale');
await manager.close();
await server.stop();

const sum = (key) => runs.reduce((total, run) => total + run[key], 0);
console.log(
  `scale ${scale}: ${sessions} sessions, ${PROCESSES} processes of ${WRITERS} writers, ${seconds.toFixed(0)} s of wall time`,
);
console.table({
  'saves acknowledged': times.length,
  'errors of writers': JSON.stringify(Object.assign({}, ...results.map(({ errors }) => errors))),
  'saves a second': (times.length / seconds).toFixed(1),
  'save p50, p99, longest (ms)': `${quantile(0.5)}, ${quantile(0.99)}, ${times.at(-1)?.toFixed(0)}`,
  'processor time of the writers per save (ms)': ((writerCpu * 1000) / times.length).toFixed(2),
  'server away (ms)': outageMs.toFixed(0),
  'checkpoints, tombstones, chunks': `${stats.checkpoints}, ${stats.tombstones}, ${stats.chunks}`,
  'bytes in the database, per chunk': `${bytes}, ${(bytes / stats.chunks).toFixed(0)}`,
  'prune and gc runs': runs.length,
  'pruned, per run (ms)': `${sum('deleted')}, ${(sum('pruneMs') / runs.length).toFixed(0)}`,
  'collected, per run (ms)': `${sum('chunks')}, ${(sum('gcMs') / runs.length).toFixed(0)}`,
  'heads read back of a sample, damaged': `${list.length}, ${damaged}`,
});
