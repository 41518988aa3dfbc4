import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { align, findIncreasing } from './align.ts';
import { placeMoves } from './list-moves.ts';

const sequence = fc.array(fc.nat(40).map(String), { maxLength: 60 });

test('[diff.3] matches are equal, in order and not overlapping', () => {
  const long = fc.array(fc.nat(5000).map(String), { minLength: 400, maxLength: 900 });
  fc.assert(
    fc.property(fc.oneof(fc.tuple(sequence, sequence), fc.tuple(long, long)), ([before, after]) => {
      let [b, a] = [0, 0];
      for (const match of align(before, after)) {
        expect(match.before).toBeGreaterThanOrEqual(b);
        expect(match.after).toBeGreaterThanOrEqual(a);
        b = match.before + match.length;
        a = match.after + match.length;
        expect(before.slice(match.before, b)).toEqual(after.slice(match.after, a));
      }
    }),
    drawn(2_000),
  );
});

/** The length of a longest common subsequence, by the book. */
function longestCommon(before: readonly string[], after: readonly string[]): number {
  let row: number[] = Array.from({ length: after.length + 1 }, () => 0);
  for (const element of before) {
    const next = [0];
    after.forEach((other, at) => {
      next.push(element === other ? (row[at] ?? 0) + 1 : Math.max(row[at + 1] ?? 0, next[at] ?? 0));
    });
    row = next;
  }
  return row.at(-1) ?? 0;
}

test('[diff.3] short sequences are aligned with as many matches as there can be', () => {
  fc.assert(
    fc.property(sequence, sequence, (before, after) => {
      const found = align(before, after).reduce((sum, { length }) => sum + length, 0);
      expect(found).toBe(longestCommon(before, after));
    }),
    drawn(2_000),
  );
});

test('[diff.3] a long sequence with changes all over is split where elements occur once', () => {
  const before = Array.from({ length: 5000 }, (_, at) => `old ${at}`);
  const after = before.map((element, at) => (at % 5 === 0 ? `new ${at}` : element));
  expect(align(before, after).reduce((sum, { length }) => sum + length, 0)).toBe(4000);
});

test('[diff.3] moves made one after the other lead to the later order', () => {
  const order = fc
    .nat(40)
    .chain((count) => fc.shuffledSubarray([...Array(count).keys()], { minLength: count, maxLength: count }));
  fc.assert(
    fc.property(order, (after) => {
      const staying = new Set(findIncreasing(after).map((index) => after[index] ?? -1));
      const gap = (list: readonly number[], element: number) =>
        list.slice(0, list.indexOf(element)).filter((other) => staying.has(other)).length;
      const list = after.toSorted((a, b) => a - b);
      const before = [...list];
      const movers = after
        .filter((element) => !staying.has(element))
        .map((element) => {
          const place = { index: after.indexOf(element), gap: gap(after, element) };
          return [{ index: element, gap: gap(before, element) }, place] as const;
        });
      for (const { mover, from, to } of placeMoves(movers)) {
        expect(list[from]).toBe(mover[0].index); // which is the element
        list.splice(to, 0, ...list.splice(from, 1));
      }
      expect(list).toEqual(after);
    }),
    drawn(2_000),
  );
});
