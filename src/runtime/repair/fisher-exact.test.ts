import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ContingencyTable, fisherExact } from './fisher-exact.ts';

describe("Fisher's exact test", () => {
  test.each<[ContingencyTable, number]>([
    [
      [
        [8, 0],
        [0, 8],
      ],
      0.0001554,
    ],
    [
      [
        [3, 1],
        [1, 3],
      ],
      0.4857143,
    ],
    [
      [
        [1, 9],
        [11, 3],
      ],
      0.0027595,
    ],
    [
      [
        [3, 0],
        [0, 3],
      ],
      0.1,
    ],
    [
      [
        [10, 2],
        [3, 15],
      ],
      0.0005367,
    ],
    [
      [
        [5, 5],
        [5, 5],
      ],
      1,
    ],
    [
      [
        [0, 0],
        [4, 4],
      ],
      1,
    ],
    [
      [
        [7, 0],
        [9, 0],
      ],
      1,
    ],
    [
      [
        [400, 100],
        [300, 200],
      ],
      6.015355e-12,
    ],
  ])('[repair.8] %j has p = %d', (table, p) => {
    const found = fisherExact(table);
    expect(Math.abs(found - p) / p).toBeLessThan(1e-2);
    if (p > 1e-6) expect(found).toBeCloseTo(p, 6);
  });

  test('[repair.8] is the same whichever group or outcome comes first, and never above 1', () => {
    const count = fc.nat({ max: 60 });
    const counts = fc.tuple(count, count, count, count);
    fc.assert(
      fc.property(counts, ([a, b, c, d]) => {
        const p = fisherExact([
          [a, b],
          [c, d],
        ]);
        expect(p).toBeGreaterThan(0);
        expect(p).toBeLessThanOrEqual(1);
        const turned: ContingencyTable[] = [
          [
            [c, d],
            [a, b],
          ],
          [
            [b, a],
            [d, c],
          ],
          [
            [a, c],
            [b, d],
          ],
        ];
        for (const other of turned) expect(fisherExact(other)).toBeCloseTo(p, 9);
      }),
    );
  });

  test('[repair.8] adds up what a count with whole numbers adds up', () => {
    const choose = (n: number, k: number): bigint => {
      let result = 1n;
      for (let i = 1; i <= k; i++) result = (result * BigInt(n - k + i)) / BigInt(i);
      return result;
    };
    const exact = ([a, b, c, d]: readonly [number, number, number, number]): number => {
      const ways = (x: number) => choose(a + b, x) * choose(c + d, a + c - x);
      let sum = 0n;
      for (let x = Math.max(0, a - d); x <= Math.min(a + b, a + c); x++) if (ways(x) <= ways(a)) sum += ways(x);
      return Number((sum * 10n ** 15n) / choose(a + b + c + d, a + c)) / 1e15;
    };
    const count = fc.nat({ max: 12 });
    const counts = fc.tuple(count, count, count, count);
    fc.assert(
      fc.property(counts, ([a, b, c, d]) => {
        expect(
          fisherExact([
            [a, b],
            [c, d],
          ]),
        ).toBeCloseTo(exact([a, b, c, d]), 8);
      }),
    );
  });
});
