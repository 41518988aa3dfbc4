import { Memory, SqliteMemoryStorage } from '../../dist/memory/index.js';
import { openDatabase } from '../../dist/storage/database/sqlite-driver.js';
import { createFsyncProbe } from '../measure.mjs';
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
const userId = 'ann';

async function run(workbench) {
  const count = workbench.isQuick ? MEMORIES / 10 : MEMORIES;
  for (const { durability, label } of DURABILITIES) await measureAdds(workbench, { durability, label });
  await measureSearches(workbench, count);
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
    what: `add of one turn, ${label}, median`,
    ratio: percentile(times.memory, 0.5),
    unit: ' ms',
    // What is power-safe costs at least one fsync, which is the disk's affair.
    ...(durability === 'process' && { target: { atMost: 1 } }),
    figures: [
      `p95 ${formatMs(percentile(times.memory, 0.95))}`,
      `plain FTS5 ${formatMs(percentile(times.plain, 0.5))} (p95 ${formatMs(percentile(times.plain, 0.95))})`,
      `fsync probe ${formatMs(percentile(times.probe, 0.5))}`,
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
  const questions = Array.from({ length: workbench.rounds(SEARCHES) }, () => createQuestion(random));
  const firstMs = await time(() => memory.search(questions[0], { userId }));
  const times = { memory: [], plain: [] };
  for (const question of questions) {
    times.memory.push(await time(() => memory.search(question, { userId, topK: 10 })));
    times.plain.push(await time(() => plain.search(question, 10)));
  }
  await memory.close();
  plain.close();
  workbench.report.line({
    what: `search over ${count.toLocaleString('en')} memories, without vectors, p95`,
    ratio: percentile(times.memory, 0.95),
    unit: ' ms',
    target: { atMost: 20 },
    figures: [
      `median ${formatMs(percentile(times.memory, 0.5))}`,
      `the first, which reads the log ${formatMs(firstMs)}`,
      `plain FTS5 p95 ${formatMs(percentile(times.plain, 0.95))} (median ${formatMs(percentile(times.plain, 0.5))})`,
    ],
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
