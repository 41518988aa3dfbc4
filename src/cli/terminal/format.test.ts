import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import widthOf from 'string-width';
import { expect, test } from 'vitest';
import { clip, formatRows, formatTable, wrapWords } from './format.ts';
import { createStyle } from './style.ts';
import { createTerminal, type Terminal } from './terminal.ts';

const screen = (columns: number): Terminal => ({
  ...createTerminal(process, { color: false }),
  isScreen: true,
  columns,
});

test('[cli.3] a sentence that is longer than the screen is broken between words, and goes on under its beginning', () => {
  const text = '  It was said that the tram leaves at nine, 電車は九時に出る.\nShort.\n';
  for (const columns of [60, 40, 20, 12]) {
    const wrapped = wrapWords(text, columns);
    expect(wrapped.replaceAll('\n  ', ' ')).toBe(text);
    for (const line of wrapped.split('\n'))
      if (line.trim().includes(' ')) expect(widthOf(line)).toBeLessThanOrEqual(columns);
  }
  expect(wrapWords('chk_01m7j67rg2hpnyb3tmhdk1\n', 10)).toBe('chk_01m7j67rg2hpnyb3tmhdk1\n');
  expect(wrapWords('as it is', 80)).toBe('as it is');
});

test('[cli.3] no line of a table is wider than the screen; the last column is cut first', () => {
  const rows = [
    ['1', 'chk_01m7j67rg2hpnyb3tmhdk1', 'planner: Step 1: walk up to the castle, then take tram 28 to Belém.'],
    ['12', 'chk_01m7j67rg48bt1qzwvykpf', '評論家：すばらしい計画です。賛成します。すばらしい計画です。賛成します。'],
  ];
  for (const columns of [80, 60, 40, 20, 9]) {
    const lines = formatRows(screen(columns), rows, { head: ['#', 'checkpoint', 'what'], right: [0] }).split('\n');
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
  }
  expect(formatTable(rows, { columns: 60 })).toContain('chk_01m7j67rg2hpnyb3tmhdk1  planner: Step 1');
  expect(formatTable(rows, { columns: 60 })).toContain('…');
});

test('[cli.3] a coloured cell that is cut leaves no colour on; one that fits keeps it; a pipe gets all of it', () => {
  const { green } = createStyle(true);
  const cell = green('a long name of a branch');
  expect(formatTable([[cell]], { columns: 10 })).toBe('a long na…\n');
  expect(formatTable([[cell]], { columns: 30 })).toBe(`${cell}\n`);
  expect(formatRows({ ...screen(10), isScreen: false }, [[cell, 'b']])).toBe('a long name of a branch\tb\n');
});

test('[cli.3] a clipped text takes no more columns than it may, whatever is in it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 40 }), (text, columns) => {
      expect(widthOf(clip(text, columns))).toBeLessThanOrEqual(columns);
    }),
  );
  expect(clip('👨‍👩‍👧‍👦'.repeat(5), 5)).toBe('👨‍👩‍👧‍👦👨‍👩‍👧‍👦…');
  expect(stripVTControlCharacters(clip('a\u001b[31m\nb\u202e', 20))).toBe('a [31m b');
});
