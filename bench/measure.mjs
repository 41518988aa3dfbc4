import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const PROBE_BYTES = 1800;

/** Median and tenth percentile; the median is what is judged, the tenth percentile what a quiet machine would show. */
export function summarise(samples) {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return { median: at(0.5), p10: at(0.1), count: sorted.length };
}

/**
 * Times several sides turn by turn in one loop, so that whatever else the machine does hits all of them alike; who goes first changes
 * with every round. A side is `{ prepare(round), run(prepared, round) }`; only `run` is timed. One with `measure()` says itself what it took. Answers a summary per side, in ms.
 */
export async function interleave(sides, { rounds, warmup = Math.ceil(rounds / 10) }) {
  const names = Object.keys(sides);
  const samples = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < rounds + warmup; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length];
      const tookMs = await time(sides[name], round);
      if (round >= warmup) samples[name].push(tookMs);
    }
  }
  return Object.fromEntries(names.map((name) => [name, summarise(samples[name])]));
}

async function time({ prepare, run, measure }, round) {
  if (measure !== undefined) return measure();
  const prepared = await prepare?.(round);
  const start = performance.now();
  const result = run(prepared, round);
  if (result instanceof Promise) await result;
  return performance.now() - start;
}

/** What the disk takes for one small durable write: the side that every durable figure is shown beside. */
export function createFsyncProbe(folder) {
  const fd = openSync(join(folder, 'fsync-probe'), 'a');
  const bytes = Buffer.alloc(PROBE_BYTES, 'x');
  return {
    run: () => {
      writeSync(fd, bytes);
      fdatasyncSync(fd);
    },
    close: () => closeSync(fd),
  };
}

/**
 * Empties the young generation, so that one side does not pay for the garbage of the other. Not a full collection: that one also throws
 * away what the engine learnt about our code, which JSON.parse and SQLite, being native, do not mind. It made some saves several times as slow.
 */
export function collectYoungGarbage() {
  globalThis.gc?.({ type: 'minor' });
}

/** Collects everything: for measuring memory, never before measuring time. */
export function collectAllGarbage() {
  globalThis.gc?.();
  globalThis.gc?.();
}

/** Ratio of two summaries, as a table line understands it. */
export function ratioOf(ours, base) {
  return { ratio: ours.median / base.median, ratioP10: ours.p10 / base.p10 };
}
