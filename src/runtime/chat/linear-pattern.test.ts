import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { LinearPattern } from './linear-pattern.ts';

const atom = fc.constantFrom(
  'a',
  'b',
  '.',
  '[ab]',
  '[^a]',
  '\\w',
  '\\s',
  '^',
  '$',
  '\\b',
  '\\B',
  '\\n',
  '\\u0061',
  'é',
  '😀',
);
/** How often nothing is repeated decides which of two lengths is found. */
const isLong = (source: string) => !new RegExp(source.replaceAll(/\^|\$|\\b/gi, '')).test('');
const { pattern } = fc.letrec<{ pattern: string; piece: string }>((tie) => ({
  piece: fc.oneof(
    { maxDepth: 3 },
    atom,
    fc.tuple(fc.constantFrom('(', '(?:'), tie('pattern')).map(([open, inside]) => `${open}${inside})`),
    fc
      .tuple(
        tie('pattern').filter(isLong),
        fc.constantFrom('*', '+', '?', '*?', '+?', '??', '{2}', '{1,2}', '{0,2}?', '{1,}'),
      )
      .map(([inside, times]) => `(?:${inside})${times}`),
  ),
  pattern: fc
    .array(fc.array(tie('piece'), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 2 })
    .map((ways) => ways.map((pieces) => pieces.join('')).join('|')),
}));
const text = fc
  .array(fc.constantFrom('a', 'b', 'A', ' ', '\n', 'é', '😀'), { maxLength: 8 })
  .map((chars) => chars.join(''));
const flags = fc.subarray(['i', 'm', 's', 'u']).map((all) => all.join(''));

describe('a pattern', () => {
  test('[chat.2] finds what the regular expressions of JavaScript find', () => {
    fc.assert(
      fc.property(pattern, flags, text, (source, flag, said) => {
        const expected = new RegExp(source, flag).exec(said)?.[0];
        expect(new LinearPattern({ source, flags: flag }).find(said)).toBe(expected);
      }),
      drawn(2_000),
    );
  });

  test('[chat.2] takes out every place', () => {
    const done = new LinearPattern({ source: 'done(?<end>!|\\.)*\\s*', flags: 'i' });
    expect(done.remove('Well. DONE!!! And done. Or')).toBe('Well. And Or');
  });

  test('[chat.2] takes out thousands of places that each look to the end', () => {
    let reads = 0;
    const get = (chars: string[], key: string | symbol): unknown => {
      reads++;
      return Reflect.get(chars, key);
    };
    const said = { split: () => new Proxy(Array<string>(2000).fill('a'), { get }) };
    expect(new LinearPattern({ source: 'a(?:.*b)?' }).remove(said as never)).toBe('');
    expect(reads).toBeLessThan(50 * 2000); // 2,000,000 if the rest is read after each
  });

  test('[chat.2] nested repetitions end', () => {
    const said = 'a'.repeat(1500);
    for (const source of ['(a+)+$b', '(a|a)*b', '(a|aa)+$b', '(.*)*=', 'a*a*a*a*b', '(a{0,20}){0,20}b'])
      expect(new LinearPattern({ source }).find(said)).toBeUndefined();
  });

  test.each([
    ['(', 'is no regular expression'],
    ['(?=a)b', 'a lookaround or a modifier'],
    ['(?<!a)b', 'a lookaround or a modifier'],
    ['(a)\\1', 'a reference to a group'],
    ['(?<n>a)\\k<n>', 'a reference to a group'],
    ['(a{1000}){1000}', 'too many repetitions'],
  ])('[chat.2] refuses %s', (source, said) => {
    expect(() => new LinearPattern({ source })).toThrow(said);
  });
});
