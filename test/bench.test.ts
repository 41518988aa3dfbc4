import { expect, test } from 'vitest';

type Read = (words: readonly string[], ids: readonly string[]) => Record<string, unknown>;

const words = new URL('../bench/words.mjs', import.meta.url).href;
const { readWords } = (await import(words)) as { readWords: Read };
const ids = ['row3', 'memory'];

test('the bench runs what was asked for, and nothing where a word fits nothing', () => {
  expect(readWords([], ids)).toEqual({ isQuick: false, isReported: false, wanted: [] });
  expect(readWords(['row3', '--quick'], ids)).toEqual({ isQuick: true, isReported: false, wanted: ['row3'] });
  expect(readWords(['--report'], ids)).toEqual({ isQuick: false, isReported: true, wanted: [] });
  expect(readWords(['--report', 'row3'], ids)).toEqual({ said: expect.stringContaining('of all rows'), exitCode: 2 });
  expect(readWords(['--help'], ids)).toEqual({ said: expect.stringContaining('Rows: row3, memory'), exitCode: 0 });
  for (const word of ['--hlep', '-x', 'row9'])
    expect(readWords([word], ids)).toEqual({ said: expect.stringContaining(`knows no ${word}.`), exitCode: 2 });
});
