import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../../core/record/checkpoint-header.ts';
import type { Digest } from '../../../core/tree/chunk.ts';
import type { BisectVerdict } from '../../place/own-files.ts';
import { Bisection } from './bisect-search.ts';

function createHistory(length: number): Checkpoint[] {
  return Array.from(
    { length },
    (_, at) => new Checkpoint({ id: `chk_${at}`, sequence: at + 1 } as unknown as CheckpointHeader, '' as Digest),
  );
}

/** Runs a search to its end; returns how many were looked at, both ends not counted. */
function search(bisection: Bisection, verdictOf: (at: number) => BisectVerdict): number {
  let looks = 0;
  for (let at = bisection.nextAt; at !== undefined; at = bisection.nextAt) {
    const id = bisection.checkpoints[at]?.id;
    if (id !== undefined) bisection.set(id, verdictOf(at));
    looks++;
  }
  return looks;
}

function begin(length: number): Bisection {
  const history = createHistory(length);
  const [first, last] = [history[0], history.at(-1)];
  if (first === undefined || last === undefined) throw new Error('A history needs two ends.');
  return new Bisection(history, [
    [first.id, 'good'],
    [last.id, 'bad'],
  ]);
}

test('[cli.12] finds the first bad one of any history with as many looks as a binary search needs', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 3000 }), fc.nat(), (length, seed) => {
      const firstBad = 1 + (seed % (length - 1));
      const bisection = begin(length);
      const looks = search(bisection, (at) => (at >= firstBad ? 'bad' : 'good'));
      expect(bisection.candidates.map(({ sequence }) => sequence - 1)).toEqual([firstBad]);
      expect(looks).toBeLessThanOrEqual(Math.ceil(Math.log2(length)));
      expect(bisection.flips()).toHaveLength(1);
    }),
  );
  expect(search(begin(10_000), (at) => (at >= 7_777 ? 'bad' : 'good'))).toBeLessThanOrEqual(14);
});

test('[cli.12] whatever alternates, it finds a place where good turns bad', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 0, maxLength: 60 }), (middle) => {
      const isBad = [false, ...middle, true];
      const bisection = begin(isBad.length);
      search(bisection, (at) => (isBad[at] === true ? 'bad' : 'good'));
      const { lastGood, firstBad } = bisection.result;
      expect([firstBad - lastGood, isBad[lastGood], isBad[firstBad]]).toEqual([1, false, true]);
    }),
  );
});

test('[cli.12] with skipped ones it leaves just those that cannot be told apart', () => {
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 200 }), fc.nat(), fc.func(fc.boolean()), (length, seed, isSkipped) => {
      const firstBad = 1 + (seed % (length - 1));
      const bisection = begin(length);
      const verdictOf = (at: number): BisectVerdict => (isSkipped(at) ? 'skip' : at >= firstBad ? 'bad' : 'good');
      search(bisection, verdictOf);
      const places = bisection.candidates.map(({ sequence }) => sequence - 1);
      expect(places).toContain(firstBad);
      expect(places.slice(0, -1).every((at) => verdictOf(at) === 'skip')).toBe(true); // all but the last
    }),
  );
});
