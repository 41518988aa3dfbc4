import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { processorMs } from '../../../test/support/clock.ts';
import { drawn } from '../../../test/support/trials.ts';
import { LinearPattern } from './linear-pattern.ts';

const CHARS = ['a', 'b', 'A', ' ', '\n', 'é', '😀', '\ud83d', '\ude00', '-', 'ſ', 'K'];
const ATOMS = [
  'a',
  'b',
  '.',
  '-',
  'é',
  '😀',
  '[ab]',
  '[^a]',
  '[a-c😀]',
  '[^]',
  '[]',
  '\\w',
  '\\W',
  '\\s',
  '\\d',
  '\\D',
];
const PLACES = ['^', '$', '\\b', '\\B'];
const ESCAPES = [
  '\\n',
  '\\u0061',
  '\\x61',
  '\\ud83d',
  '\\ud83d\\ude00',
  '\\u{61}',
  '\\u{1f600}',
  '\\p{L}',
  '\\cA',
  '\\0',
];
const TIMES = ['*', '+', '?', '*?', '+?', '??', '{2}', '{0}', '{1,2}', '{0,2}?', '{1,}', '{2,3}'];

const { pattern } = fc.letrec<{ pattern: string; piece: string }>((tie) => ({
  piece: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(...ATOMS, ...PLACES, ...ESCAPES),
    fc.tuple(fc.constantFrom('(', '(?:'), tie('pattern')).map(([open, inside]) => `${open}${inside})`),
    fc.tuple(tie('pattern'), fc.constantFrom(...TIMES)).map(([inside, times]) => `(?:${inside})${times}`),
  ),
  pattern: fc
    .array(fc.array(tie('piece'), { maxLength: 3 }), { minLength: 1, maxLength: 3 })
    .map((ways) => ways.map((pieces) => pieces.join('')).join('|')),
}));
const text = fc.array(fc.constantFrom(...CHARS), { maxLength: 8 }).map((chars) => chars.join(''));
const flags = fc.subarray(['i', 'm', 's', 'u']).map((all) => all.join(''));

/** Between the halves of a character V8 finds \B with the flag u; the standard does not. */
const isInside = (said: string, at: number) =>
  /[\ud800-\udbff]/.test(said[at - 1] ?? '') && /[\udc00-\udfff]/.test(said[at] ?? '');

const spansOf = (expression: RegExp, said: string) =>
  [...said.matchAll(expression)].map(({ 0: found, index }) => ({ start: index, end: index + found.length }));

describe('a pattern', () => {
  test('[chat.2] finds every part that the regular expressions of JavaScript find', () => {
    fc.assert(
      fc.property(pattern, flags, text, (source, flag, said) => {
        const expected = spansOf(new RegExp(source, `${flag}g`), said);
        fc.pre(!(flag.includes('u') && expected.some(({ start }) => isInside(said, start))));
        const linear = new LinearPattern({ source, flags: flag }, 'it');
        expect([...linear.findAll(said)]).toEqual(expected);
        expect(linear.test(said)).toBe(expected.length > 0);
      }),
      drawn(20_000),
    );
  });

  test('[chat.2] finds in long texts what is in short ones, wherever a block of them ends', () => {
    const said = Array.from({ length: 3_000 }, (_, n) => `${'😀é '[n % 3]}${'ab'.repeat(n % 7)}`).join('');
    for (const source of ['(?:ab)+', '.*b$', '\\b\\w*?b', '[^a]*a', ''])
      for (const flag of ['g', 'gu'])
        expect([...new LinearPattern({ source, flags: flag }, 'it').findAll(said)]).toEqual(
          spansOf(new RegExp(source, flag), said),
        );
  });

  test.each(['\\c', '\\c?', 'a\\c+', '\\c{0,2}?', '[\\c]', '\\c1'])(
    '[chat.2] %s is a backslash and a letter',
    (source) => {
      const said = 'ac\\ca\\cc\\c1 \\';
      expect([...new LinearPattern({ source }, 'it').findAll(said)]).toEqual(spansOf(new RegExp(source, 'g'), said));
    },
  );

  test('[chat.2] puts something else in place of every part', () => {
    const done = new LinearPattern({ source: 'done(?<end>!|\\.)*\\s*', flags: 'i' }, 'it');
    expect(done.replace('Well. DONE!!! And done. Or', '')).toBe('Well. And Or');
  });

  test.each([
    '(z|z)*y$',
    '(a+)+$b',
    '(a|a)*b',
    '(a|aa)+$b',
    '(.*)*=',
    'a*a*a*a*b',
    '(a{0,20}){0,20}b',
    '(?:a|b|ab)*(?:.*c)?d',
  ])('[chat.2] %s ends on texts that it nearly fits', (source) => {
    for (const char of ['a', 'z']) expect(new LinearPattern({ source }, 'it').test(char.repeat(20_000))).toBe(false);
  });

  test('[chat.2] finds thousands of parts that each could go on to the end', () => {
    const start = processorMs();
    const found = [...new LinearPattern({ source: 'a(?:.*b)?' }, 'it').findAll('a'.repeat(50_000))];
    expect(found).toHaveLength(50_000);
    expect(processorMs() - start).toBeLessThan(20_000); // some 10,000,000,000 steps if the rest is read after each
  });

  test.each([
    ['(', 'is not a regular expression'],
    ['(?=a)b', 'has a lookaround, which cannot be matched in linear time. Write what stands around'],
    ['(?<!a)b', 'has a lookaround'],
    ['(a)\\1', 'has a reference to a group, which cannot be matched in linear time. Write out'],
    ['(?<n>a)\\k<n>', 'has a reference to a group'],
    ['(a{1000}){1000}', 'has too many repetitions'],
    ['a|'.repeat(20_000), 'has too many repetitions'],
    [`${'('.repeat(2_000)}a${')'.repeat(2_000)}`, 'has too many groups inside each other'],
  ])('[chat.2] refuses %#', (source, said) => {
    expect(() => new LinearPattern({ source }, '--pattern')).toThrow(said);
    expect(() => new LinearPattern({ source }, '--pattern')).toThrow(/^The pattern \//);
  });
});
