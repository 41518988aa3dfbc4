import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import stringWidth from 'string-width';
import { expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { clip, cutLongLines, formatDuration, formatRows, formatTable, widthOf, wrapWords } from './format.ts';
import { createStyle } from './style.ts';
import { createTerminal, type Terminal } from './terminal.ts';

const screen = (columns: number): Terminal => ({
  ...createTerminal(process, { color: false }),
  isScreen: true,
  columns,
});

test('[cli.3] a sentence that is longer than the screen is broken between words, and goes on under its beginning', () => {
  const text = '  It was said that the tram leaves at nine, 電車は九時に出る.\nShort.\n';
  for (const columns of [60, 40, 20]) {
    const wrapped = wrapWords(text, columns);
    expect(wrapped.replaceAll('\n  ', ' ')).toBe(text);
    for (const line of wrapped.split('\n')) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
  }
  expect(wrapWords('as it is', 80)).toBe('as it is');
  expect(wrapWords('[12] ann: one two three\n- [3] bob: one two\n  reason    one two three', 16)).toBe(
    '[12] ann: one\n     two three\n- [3] bob: one\n      two\n  reason    one\ntwo three',
  );
});

test('[cli.3] a word that is longer than the screen is broken where it ends, between characters, and keeps its colours', () => {
  expect(wrapWords('chk_01m7j67rg2hpnyb3tmhdk1\n', 10)).toBe('chk_01m7j6\n7rg2hpnyb3\ntmhdk1\n');
  expect(wrapWords('  電車は九時に出る', 8)).toBe('  電車は\n  九時に\n  出る');
  expect(wrapWords('a \u001b[31mbcdefg\u001b[39m h', 4)).toBe('a\n\u001b[31mbcde\nfg\u001b[39m h');
  expect(wrapWords('電', 1)).toBe('電');
  const texts = fc.string({ unit: 'grapheme' }).filter((text) => !/[\p{Cc}\p{Bidi_Control}]/u.test(text));
  fc.assert(
    fc.property(texts, fc.integer({ min: 4, max: 40 }), (text, columns) => {
      for (const line of wrapWords(text, columns).split('\n')) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    }),
  );
});

test(
  '[cli.3] a very long word is broken in time that grows with its length, and cut with how much it lacks',
  LATER,
  () => {
    const { green } = createStyle(true);
    const long = 'x'.repeat(3_000_000); // with time that grows with its square this takes minutes
    const lines = wrapWords(`  + ${long}`, 80).split('\n');
    expect(lines.length).toBe(Math.ceil(long.length / 76));
    expect(lines.map((line) => line.slice(4)).join('')).toBe(long);
    const text = `  ${green(`+ ${long}`)}\nshort\n`;
    expect(cutLongLines(text)).toBe(`  ${green(`+ ${'x'.repeat(3_996)}… 2,996,004 more characters`)}\nshort\n`);
    const painted = green('x').repeat(1_000);
    expect(cutLongLines(painted)).toBe(painted);
  },
);

test('[cli.5] a duration is rounded to the nearest, not up', () => {
  const shown = [0, 0.004, 1.001, 1.012, 1.26, 9.96, 12.4, 59.4, 61.2, 3_700].map(formatDuration);
  expect(shown).toEqual('0 s,4 ms,1 s,1 s,1.3 s,10 s,12 s,59 s,1 min 1 s,1 h 1 min'.split(','));
});

test('[cli.3] a narrow screen does without columns that are of no use in part', () => {
  const rows = [['1', '2026-01-31 09:30:00', '01kg9p6je0ce9', 'planner: Step 1: walk up to the castle.']];
  const table = (columns: number) => formatRows(screen(columns), rows, { spare: [2, 1] });
  expect(table(90)).toContain('1  2026-01-31 09:30:00  01kg9p6je0ce9  planner: Step 1: walk up to the castle.');
  expect(table(60)).toBe('1  2026-01-31 09:30:00  planner: Step 1: walk up to the cas…\n');
  expect(table(40)).toBe('1  planner: Step 1: walk up to the cast…\n');
});

test('[cli.3] no line of a table is wider than the screen; the last column is cut first', () => {
  const rows = [
    ['1', 'chk_01m7j67rg2hpnyb3tmhdk1', 'planner: Step 1: walk up to the castle, then take tram 28 to Belém.'],
    ['12', 'chk_01m7j67rg48bt1qzwvykpf', '評論家：すばらしい計画です。賛成します。すばらしい計画です。賛成します。'],
  ];
  for (const columns of [80, 60, 40, 20, 9]) {
    const lines = formatRows(screen(columns), rows, { head: ['#', 'checkpoint', 'what'], right: [0] }).split('\n');
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
  }
  expect(formatTable(rows, { columns: 60 })).toContain('chk_01m7j67rg2hpnyb3tmhdk1  planner: Step 1');
  expect(formatTable(rows, { columns: 60 })).toContain('…');
});

test('[cli.3] a coloured cell keeps its colours and leaves none on, also if it is cut, and in a pipe', () => {
  const { green } = createStyle(true);
  const cell = green('a long name of a branch');
  expect(formatTable([[cell]], { columns: 10 })).toBe(`${green('a long na…')}\n`);
  expect(formatTable([[cell]], { columns: 30 })).toBe(`${cell}\n`);
  expect(formatRows({ ...screen(10), isScreen: false }, [[cell, 'b']])).toBe(`${cell}\tb\n`); // only with FORCE_COLOR
});

test('[cli.3] a clipped text takes no more columns than it may, whatever is in it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 40 }), (text, columns) => {
      expect(stringWidth(clip(text, columns))).toBeLessThanOrEqual(columns);
    }),
  );
  expect(clip('👨‍👩‍👧‍👦'.repeat(5), 5)).toBe('👨‍👩‍👧‍👦👨‍👩‍👧‍👦…');
  expect(stripVTControlCharacters(clip('a\u001b[31m\nb\u202e', 20))).toBe('a [31m b\\u202e');
});

test('[cli.3] what is written out has its width in a table', () => {
  expect(
    formatTable([
      ['a\u202eb', 'x'],
      ['long name', 'y'],
    ]),
  ).toBe('a\\u202eb   x\nlong name  y\n');
});

test('[cli.3] a command that a hint names is not broken: its beginning alone would do something else', () => {
  const hint = 'See it: savestate diff first-bad    Fork before it: savestate fork first-bad~1';
  expect(wrapWords(hint, 70)).toBe('See it: savestate diff first-bad    Fork before it:\nsavestate fork first-bad~1');
  expect(wrapWords(`Go on: savestate continue --storage ${'x'.repeat(40)}`, 30)).toBe(
    `Go on:\nsavestate continue --storage ${'x'.repeat(40)}`,
  );
});

test('[cli.3] every character has the width it has on a screen, also those that are counted without looking', () => {
  const differing: string[] = [];
  for (let code = 0; code < 0x3000; code++) {
    const text = `a${String.fromCodePoint(code)}b`;
    if (widthOf(text) !== stringWidth(text)) differing.push(code.toString(16));
  }
  expect(differing).toEqual([]);
  expect(widthOf(createStyle(true).red('né…'))).toBe(3);
});
