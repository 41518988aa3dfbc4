import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RecentSet, recentSetState } from './knowledge.ts';
import { learn, novelty, resemblance, sketchText } from './text-sketch.ts';

const words = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `word${from + at}`).join(' ');
const alike = (a: string, b: string) => resemblance(sketchText(a).sketch.words, sketchText(b).sketch.words);

describe('text sketch', () => {
  test('[drift.3] resemblance follows the share of common words', () => {
    expect(alike(words(0, 200), words(0, 200))).toBe(1);
    expect(alike(words(0, 200), words(500, 700))).toBeLessThan(0.1);
    expect(alike(words(0, 200), words(100, 300))).toBeGreaterThan(0.2);
    expect(alike(words(0, 200), words(100, 300))).toBeLessThan(0.5);
  });

  test('[drift.3] case, marks and the order of words do not matter to it', () => {
    expect(alike('The quick, brown fox!', 'fox BROWN quick the')).toBe(1);
    expect(alike('', '')).toBe(1);
    expect(alike('', 'fox')).toBe(0);
  });

  test('[drift.3] the hash tells texts apart by their words in order', () => {
    const hash = (text: string) => sketchText(text).sketch.hash;
    expect(hash('{"a": 1}')).toBe(hash('a=1'));
    expect(hash('one two')).not.toBe(hash('two one'));
    expect(hash(words(0, 5000))).not.toBe(hash(words(0, 5001)));
  });

  test('[drift.3] what was learnt is not new', () => {
    const known = new RecentSet(1024);
    const first = sketchText(words(0, 60));
    expect(novelty(first.runs, known)).toBe(1);
    learn(first.runs, known);
    expect(novelty(first.runs, known)).toBeLessThan(0.1);
  });

  test('[drift.3] scripts without spaces are read character by character', () => {
    expect(sketchText('橋は六つ').sketch.wordCount).toBe(4);
    expect(alike('橋は六つあります', '橋は七つあります')).toBeGreaterThan(0.6);
  });

  test('[drift.10] a long text costs no more than a page', () => {
    const { sketch } = sketchText('word '.repeat(1_000_000));
    expect(sketch.wordCount).toBeLessThan(2000);
  });
});

describe('recent set', () => {
  test('[drift.10] it never holds more than its slots, nor what it was not given', () => {
    const set = new RecentSet(256);
    for (let number = 1; number <= 10_000; number++) set.add(number);
    const held = Array.from({ length: 20_000 }, (_, number) => number + 1).filter((number) => set.has(number));
    expect(held).toHaveLength(256);
    expect(set.has(10_000)).toBe(true);
    expect(set.has(1)).toBe(false);
    expect(set.has(20_000)).toBe(false);
  });

  test('[drift.10] it is saved as a list while it holds little, packed from then on, and is the same set again', () => {
    const numbers = fc.integer({ min: 1, max: 2 ** 31 - 1 });
    fc.assert(
      fc.property(fc.array(numbers, { maxLength: 800 }), (added) => {
        const set = new RecentSet(256, added);
        const state = set.snapshot();
        expect(recentSetState(256).safeParse(state).success).toBe(true);
        expect(JSON.stringify(state).length).toBeLessThanOrEqual(256 * 4 + 2);
        const copy = new RecentSet(256, state);
        expect(added.map((number) => copy.has(number))).toEqual(added.map((number) => set.has(number)));
        expect(copy.snapshot()).toEqual(state);
      }),
    );
    expect(new RecentSet(256, [7, 263, 8]).snapshot()).toEqual([263, 8]);
    expect(
      new RecentSet(
        256,
        Array.from({ length: 256 }, (_, at) => at),
      ).snapshot(),
    ).toHaveLength(256 * 4);
  });
});
