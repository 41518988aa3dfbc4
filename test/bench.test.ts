import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

type Rows = Readonly<Record<string, { readonly file: string; readonly peers?: string }>>;
type Read = (words: readonly string[], rows: Rows) => Record<string, unknown>;

const words = new URL('../bench/words.mjs', import.meta.url).href;
const { readWords } = (await import(words)) as { readWords: Read };
const rows = { row3: { file: '' }, memory: { file: '' }, 'dbos-steps': { file: '', peers: 'dbos' } };

test('the bench runs what was asked for, and nothing where a word fits nothing', () => {
  expect(readWords([], rows)).toEqual({ isQuick: false, isReported: false, wanted: ['row3', 'memory'] });
  expect(readWords(['row3', '--quick'], rows)).toEqual({ isQuick: true, isReported: false, wanted: ['row3'] });
  expect(readWords(['dbos'], rows)).toEqual({ isQuick: false, isReported: false, wanted: ['dbos-steps'] });
  expect(readWords(['--report'], rows)).toEqual({ isQuick: false, isReported: true, wanted: Object.keys(rows) });
  expect(readWords(['--report', 'row3'], rows)).toEqual({ said: expect.stringContaining('of all rows'), exitCode: 2 });
  expect(readWords(['--help'], rows)).toEqual({
    said: expect.stringContaining('Rows: row3, memory, dbos-steps'),
    exitCode: 0,
  });
  for (const word of ['--hlep', '-x', 'row9'])
    expect(readWords([word], rows)).toEqual({ said: expect.stringContaining(`knows no ${word}.`), exitCode: 2 });
});

test('each row of the bench is in the file that the table names', async () => {
  const { ROWS } = (await import(new URL('../bench/rows.mjs', import.meta.url).href)) as { ROWS: Rows };
  for (const [id, { file }] of Object.entries(ROWS))
    expect(readFileSync(new URL(file, new URL('../bench/', import.meta.url)), 'utf8')).toContain(`id: '${id}'`);
});
