import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ratioOf, summarise } from '../measure.mjs';
import { inArena } from './arena.mjs';
import { openContestant } from './contestants.mjs';
import { GrowingThread } from './conversation.mjs';

const run = promisify(execFile);

export const steps = {
  id: 'langgraph-steps',
  title: 'putWrites + put ÷ a bare save, process-safe',
  run: inArena(stepsBesideSaves),
};

export const delta = {
  id: 'langgraph-delta',
  title: 'a graph with a delta channel, durability sync',
  run: inArena(deltaChannels),
};

export const cold = {
  id: 'langgraph-cold',
  title: 'the first getTuple of a process, with the opening of the saver',
  run: inArena(coldReads),
};

const OURS = 'our SQLite, process-safe';
/** Both survive the end of the process, and may lose the last commits in a power cut. */
const THEIRS = 'official SQLite';

async function stepsBesideSaves({ arena, report, isQuick }) {
  const lengths = isQuick ? [100, 1_000] : [100, 1_000, 10_000];
  const [short, middle] = lengths;
  const long = lengths.at(-1);
  const job = { name: 'steps', lengths, bareLength: middle, rounds: isQuick ? 60 : 400 };
  const { storedBytes: _, ...sides } = await arena.measure('step-child.mjs', job);
  for (const length of lengths) {
    report.line({
      what: `putWrites + put at ${length.toLocaleString('en')} ÷ bare save`,
      ...ratioOf(sides[`step at ${length}`], sides['bare save']),
      ...(length === middle && { target: { atMost: 2.5 } }),
    });
  }
  report.line({
    what: `putWrites + put at ${long.toLocaleString('en')} ÷ at ${short}`,
    ...ratioOf(sides[`step at ${long}`], sides[`step at ${short}`]),
    target: { atMost: 1.5 },
    sides,
  });
}

/** Nodes that wait for nothing, and a checkpoint that is stored before the next step begins. */
async function deltaChannels({ arena, report, isQuick }) {
  const steps = isQuick ? 100 : 500;
  const jobs = [OURS, THEIRS].map((name) => ({ name, steps, waitMs: 0, isDelta: true, durability: 'sync' }));
  const results = await arena.takeTurns({ script: 'graph-child.mjs', jobs, rounds: isQuick ? 3 : 5 });
  const of = (key) => (name) => summarise(results[name].map((result) => result[key] / steps));
  const [took, cpu] = [of('totalMs'), of('cpuMs')];
  report.line({
    what: `delta channel, ${steps} steps: ours ÷ ${THEIRS}`,
    ...ratioOf(took(OURS), took(THEIRS)),
    target: { atMost: 0.9 },
    sides: { [OURS]: took(OURS), [THEIRS]: took(THEIRS), 'processor of ours': cpu(OURS), 'of theirs': cpu(THEIRS) },
  });
}

async function coldReads({ arena, report, isQuick }) {
  const length = isQuick ? 200 : 600;
  const samples = Object.fromEntries([OURS, THEIRS].map((name) => [name, []]));
  const places = await Promise.all([OURS, THEIRS].map((name) => arena.createPlace(name)));
  for (const place of places) await fill(place, length);
  for (let round = 0; round < (isQuick ? 5 : 15); round++) {
    for (const place of round % 2 === 0 ? places : places.toReversed())
      samples[place.name].push(await readCold(place, length));
  }
  const of = (name, key) => summarise(samples[name].map((sample) => sample[key]));
  const sides = { [OURS]: of(OURS, 'tookMs'), [THEIRS]: of(THEIRS, 'tookMs') };
  report.line({
    what: `${length} messages, first getTuple of a process: ours ÷ ${THEIRS}`,
    ...ratioOf(sides[OURS], sides[THEIRS]),
    target: { atMost: 0.5 },
    sides: { ...sides, 'processor of ours': of(OURS, 'cpuMs'), 'of theirs': of(THEIRS, 'cpuMs') },
  });
}

async function fill(place, length) {
  const { saver, close } = await openContestant(place.name, place);
  const thread = new GrowingThread(saver, 'thread', 1);
  await thread.begin();
  while (thread.length < length) await thread.save(thread.prepare());
  await close();
}

async function readCold(place, length) {
  const child = [join(import.meta.dirname, 'cold-child.mjs'), JSON.stringify({ name: place.name, place, length })];
  return JSON.parse((await run(process.execPath, child)).stdout);
}
