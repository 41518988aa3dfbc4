import { monitorEventLoopDelay } from 'node:perf_hooks';
import { localEmbedder, Memory, SqliteMemoryStorage } from '../../dist/memory/index.js';
import { createFsyncProbe } from '../measure.mjs';
import { openDatabase } from '../raw-sqlite.mjs';
import { formatMs } from '../report.mjs';
import { ADJECTIVES, NAMES, NOUNS, PLACES, VERBS } from '../vocabulary.mjs';
import { DURABILITIES } from '../workbench.mjs';

export const recall = {
  id: 'recall',
  title: 'long-term memory: search over 10,000 memories, and add; beside plain FTS5',
  run,
};

const MEMORIES = 10_000;
const SEARCHES = 400;
const ADDS = 500;
/** Searches before those that are timed, of both sides: new code is slow. */
const WARMUP = 20;
const userId = 'ann';

async function run(workbench) {
  const count = workbench.isQuick ? MEMORIES / 10 : MEMORIES;
  for (const { durability, label } of DURABILITIES) await measureAdds(workbench, { durability, label });
  await measureSearches(workbench, count);
  await measureLocalModel(workbench);
}

/** Adds, one by one, turn by turn with plain inserts into FTS5 at the same durability and with the fsync probe. */
async function measureAdds(workbench, { durability, label }) {
  const random = createRandom(1);
  const memory = new Memory({ storage: new SqliteMemoryStorage({ path: workbench.newPath(), durability }) });
  const plain = new PlainFts(workbench.newPath(), durability);
  const probe = createFsyncProbe(workbench.folder);
  const times = { memory: [], plain: [], probe: [] };
  for (let n = 0; n < workbench.rounds(ADDS) + 50; n++) {
    const turn = createTurn(random);
    const tookMs = {
      memory: await time(() => memory.add(turn, { userId, runId: `run ${n >> 5}` })),
      plain: await time(() => plain.add(turn.content)),
      probe: await time(() => probe.run()),
    };
    if (n >= 50) for (const [side, list] of Object.entries(times)) list.push(tookMs[side]);
  }
  await memory.close();
  plain.close();
  probe.close();
  workbench.report.line({
    what: `add of one turn, ${label}, median ÷ plain FTS5 insert`,
    ratio: percentile(times.memory, 0.5) / percentile(times.plain, 0.5),
    target: { atMost: 2 },
    figures: Object.entries(times).map(
      ([side, list]) => `${side} ${formatMs(percentile(list, 0.5))} (p95 ${formatMs(percentile(list, 0.95))})`,
    ),
  });
}

/** Turns added with the packaged model: what one waits for, and the longest that the event loop stood still meanwhile. */
async function measureLocalModel(workbench) {
  const random = createRandom(3);
  const memory = new Memory({ path: workbench.newPath(), embedder: localEmbedder() });
  await memory.add(createTurn(random), { userId });
  const loaded = await memory.search('the first turn', { userId });
  if (loaded.vectors !== 'used') {
    await memory.close();
    return workbench.report.note(`the local model is not installed: ${loaded.problem}`);
  }
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const times = [];
  for (let n = 0; n < workbench.rounds(50); n++)
    times.push(await time(() => memory.add(createTurn(random), { userId, runId: 'run' })));
  const embedding = await time(() => memory.close());
  delay.disable();
  workbench.report.line({
    what: 'add of one turn with the local model, median',
    ratio: percentile(times, 0.5),
    unit: ' ms',
    figures: [
      `the event loop stood still for at most ${formatMs(delay.max / 1e6)}`,
      `vectors were ready ${formatMs(embedding / times.length)} a turn later`,
    ],
  });
}

async function measureSearches(workbench, count) {
  const random = createRandom(2);
  const path = workbench.newPath();
  const turns = Array.from({ length: count }, () => createTurn(random));
  const memory = new Memory({ storage: new SqliteMemoryStorage({ path, durability: 'process' }) });
  const plain = new PlainFts(workbench.newPath(), 'process');
  for (let at = 0; at < count; at += 50) {
    await memory.add(turns.slice(at, at + 50), { userId, runId: `run ${at}`, infer: false });
    for (const turn of turns.slice(at, at + 50)) plain.add(turn.content);
  }
  const questions = Array.from({ length: workbench.rounds(SEARCHES) + WARMUP }, () => createQuestion(random));
  const firstMs = await time(() => memory.search(questions[0], { userId }));
  const times = { memory: [], plain: [] };
  for (const [at, question] of questions.entries()) {
    const memoryMs = await time(() => memory.search(question, { userId, topK: 10 }));
    const plainMs = await time(() => plain.search(question, 10));
    if (at < WARMUP) continue;
    times.memory.push(memoryMs);
    times.plain.push(plainMs);
  }
  await memory.close();
  plain.close();
  const over = `over ${count.toLocaleString('en')} memories, without vectors`;
  workbench.report.line({
    what: `search ${over}, p95 ÷ plain FTS5`,
    ratio: percentile(times.memory, 0.95) / percentile(times.plain, 0.95),
    target: { atMost: 2 },
    figures: Object.entries(times).map(
      ([side, list]) => `${side} p95 ${formatMs(percentile(list, 0.95))} (median ${formatMs(percentile(list, 0.5))})`,
    ),
  });
  workbench.report.line({
    what: `first search ${over}, which reads the log`,
    ratio: firstMs,
    unit: ' ms',
    target: { atMost: 200 },
  });
}

/** What a program without us would write: one FTS5 table with stems, words combined with OR, ranked by bm25. */
class PlainFts {
  #db;
  #insert;
  #select;

  constructor(path, durability) {
    this.#db = openDatabase(path);
    this.#db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=${durability === 'power' ? 'FULL' : 'NORMAL'}`);
    this.#db.exec("CREATE VIRTUAL TABLE turn USING fts5(content, tokenize='porter unicode61')");
    this.#insert = this.#db.prepare('INSERT INTO turn(content) VALUES (?)');
    this.#select = this.#db.prepare('SELECT rowid, content FROM turn WHERE turn MATCH ? ORDER BY bm25(turn) LIMIT ?');
  }

  add(content) {
    this.#insert.run(content);
  }

  search(question, limit) {
    const words = question.toLowerCase().match(/[a-z0-9]+/g) ?? [];
    return this.#select.all(words.map((word) => `"${word}"`).join(' OR '), limit);
  }

  close() {
    this.#db.close();
  }
}

function createTurn(random) {
  const { pick } = random;
  const content = Array.from(
    { length: 2 },
    () =>
      `The ${pick(ADJECTIVES)} ${pick(NOUNS)} in ${pick(PLACES)} had to ${pick(VERBS)} the ${pick(NOUNS)} with a ${pick(NOUNS)}.`,
  ).join(' ');
  return { role: 'user', name: pick(NAMES), content };
}

function createQuestion({ pick }) {
  return `When did ${pick(NAMES)} ${pick(VERBS)} the ${pick(ADJECTIVES)} ${pick(NOUNS)} in ${pick(PLACES)} and the ${pick(NOUNS)}?`;
}

function createRandom(seed) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return { pick: (list) => list[Math.floor(next() * list.length)] };
}

async function time(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function percentile(samples, share) {
  return samples.toSorted((a, b) => a - b)[Math.floor(samples.length * share)];
}
