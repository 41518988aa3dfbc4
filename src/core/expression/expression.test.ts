import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { evaluate } from './evaluate.ts';
import { EVERY, parseExpression, pathsOf } from './parse-expression.ts';

const names: Record<string, unknown> = {
  input: {
    at: new Date('2026-02-03'),
    many: [{ t: 'ab', n: 1 }, { t: 'cd', n: 5 }, {}],
    n: 3,
    text: 'hello',
    none: null,
    list: [1, 2],
    'odd key': 'x',
    'dash-ed': { deep: true },
  },
  steps: new Map([['fetch', { status: 'done', output: { items: ['a', 'b'] } }]]),
};
const lookup = (root: string): unknown => names[root];
const value = (text: string): unknown => evaluate(parseExpression(text), lookup);

describe('expressions', () => {
  test.each<[string, unknown]>([
    ['input.n', 3],
    ['input.n == 3', true],
    ['input.n != 3', false],
    ['input.n >= 3 and input.n < 4', true],
    ['input.n < 3 or not input.none', true],
    ['not (input.n == 3 or true)', false],
    ['input.text == "hello"', true],
    ["input.text == 'it\\'s'", false],
    ['input.none == null', true],
    ['input.missing.deeper == null', true],
    ['input["odd key"]', 'x'],
    ['input.dash-ed.deep', true],
    ['input.list[1]', 2],
    ['input.list.length', 2],
    ['input.text.length', 5],
    ['input.n in [1, 2, 3]', true],
    ['"ell" in input.text', true],
    ['steps.fetch.output.items[0]', 'a'],
    ['steps.fetch.status == "done"', true],
    ['-1.5 < 0', true],
    ['"3" == 3', false],
    ['"a" < 3', false],
    ['true and null', false],
    [' [ ] ', []],
    ['input.n + 2 * 3 - 1', 8],
    ['(input.n + 1) / 2 % 2', 0],
    ['-input.n < 0 and input.n - 1 == 2', true],
    ['input.text + 1', undefined],
    ['input.n === 3 && !(input.n !== 3) || false', true],
    ['input.list[-1]', 2],
    ['input.many[*].n', [1, 5]],
    ['"cd" in input.many[*].t', true],
    ['sum(input.many[*].n) + min([2, 1]) * max(input.list)', 8],
    ['max([])', undefined],
    ['contains(input, "d") and not contains(input.many, "e")', true],
    ['starts_with(lower("ABC"), "ab")', true],
    ['input.at > "2026-02" and input.at == "2026-02-03T00:00:00.000Z"', true],
  ])('[workflow.4] %s is %j', (text, expected) => {
    expect(value(text)).toEqual(expected);
  });

  test.each<[string, RegExp]>([
    ['', /character 1 .*expected a value, found the end/],
    ['input.', /expected a name, found the end/],
    ['input.n ==', /expected a value, found the end/],
    ['input.n = 3', /character 9 .*found "= 3"/],
    ['input.n 3', /expected the end/],
    ['fetch(1)', /expected one of the functions contains, .*found "fetch\(1\)"/],
    ['max(1, 2)', /expected one value in max\(\.\.\.\)/],
    ['input.list.some(1)', /no method: there are only the functions contains/],
    ['input[n]', /a number, a string in quotes or \*/],
    ['constructor(1)', /one of the functions/],
    [`1${' + 1'.repeat(5_000)}`, /at most 10000 characters; this one has 20001/],
    ['(input.n', /expected "\)"/],
    ['and', /expected a value/],
    [`${'('.repeat(60)}1${')'.repeat(60)}`, /less nesting/],
    [`${'not '.repeat(60)}1`, /less nesting/],
    ['a ; b', /found "; b"/],
  ])('[workflow.4] %j is refused with the place', (text, message) => {
    expect(() => parseExpression(text)).toThrow(message);
  });

  test('[workflow.4] only what a value has of its own is seen: nothing of its class, nothing that can be called', () => {
    for (const path of ['constructor', '__proto__', 'toString', 'list.map', 'text.big', 'n.toFixed'])
      expect(value(`input.${path}`)).toBeUndefined();
    expect(value('steps.size')).toBeUndefined();
  });

  test('[workflow.4] any text is parsed or refused, and never hangs or throws anything else', () => {
    const piece = fc.constantFrom(
      'input',
      '.',
      '[',
      ']',
      '(',
      ')',
      'not ',
      ' and ',
      ' in ',
      '==',
      '"a"',
      '1',
      '<',
      ',',
      '-',
      '*',
      'max(',
      ' ',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        try {
          evaluate(parseExpression(pieces.join('')), lookup);
        } catch (error) {
          expect(error).toMatchObject({ code: 'INVALID_INPUT' });
        }
      }),
    );
  });

  test('[workflow.4] the paths an expression looks at are known before it runs', () => {
    expect(pathsOf(parseExpression('not (a.b == 1) or c[0] in [d.e, -max(f[*].g)]'))).toEqual([
      ['a', 'b'],
      ['c', 0],
      ['d', 'e'],
      ['f', EVERY, 'g'],
    ]);
  });

  test('[workflow.4] any length that is accepted is evaluated in time that grows with it, and without a deep stack', () => {
    expect(value(`1${'+1'.repeat(4_999)}`)).toBe(5_000);
    expect(pathsOf(parseExpression(`input${' or input'.repeat(1_000)}`))).toHaveLength(1_001);
    let shared: unknown = 'leaf';
    for (let level = 0; level < 60; level++) shared = [shared, shared];
    expect(evaluate(parseExpression('contains(input, "x")'), () => shared)).toBe(false);
  });
});
