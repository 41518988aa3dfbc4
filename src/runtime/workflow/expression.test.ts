import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { evaluate } from './evaluate.ts';
import { parseExpression } from './expression.ts';
import { parseCondition, parseTemplate, pathsOf, render } from './template.ts';

const names: Record<string, unknown> = {
  input: { n: 3, text: 'hello', none: null, list: [1, 2], 'odd key': 'x', 'dash-ed': { deep: true } },
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
  ])('[J4] %s is %j', (text, expected) => {
    expect(value(text)).toEqual(expected);
  });

  test.each<[string, RegExp]>([
    ['', /character 1 .*expected a value, found the end/],
    ['input.', /expected a name, found the end/],
    ['input.n ==', /expected a value, found the end/],
    ['input.n = 3', /character 9 .*found "= 3"/],
    ['input.n 3', /expected the end/],
    ['fetch(1)', /found "\(1\)"/],
    ['input[n]', /a number or a text in quotes/],
    ['(input.n', /expected "\)"/],
    ['and', /expected a value/],
    [`${'('.repeat(60)}1${')'.repeat(60)}`, /less nesting/],
    [`${'not '.repeat(60)}1`, /less nesting/],
    ['a ; b', /found "; b"/],
  ])('[J4] %j is refused with the place', (text, message) => {
    expect(() => parseExpression(text)).toThrow(message);
  });

  test('[J4] only what a value has of its own is seen: nothing of its class, nothing that can be called', () => {
    for (const path of ['constructor', '__proto__', 'toString', 'list.map', 'text.big', 'n.toFixed'])
      expect(value(`input.${path}`)).toBeUndefined();
    expect(value('steps.size')).toBeUndefined();
  });

  test('[J4] any text is parsed or refused, and never hangs or throws anything else', () => {
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
});

describe('templates', () => {
  test('[J4] a text that is one reference becomes its value; others become texts', () => {
    const template = parseTemplate({
      whole: '{{ steps.fetch.output.items }}',
      mixed: 'n is {{ input.n }}, list {{input.list}}, none {{ input.none }}.',
      nested: [{ same: '{{ input.n }}' }, 7],
      braces: '{{ "}}" }} and { not } this',
      constant: { a: [1, 'x'] },
    });
    expect(render(template, lookup)).toEqual({
      whole: ['a', 'b'],
      mixed: 'n is 3, list [1,2], none .',
      nested: [{ same: 3 }, 7],
      braces: '}} and { not } this',
      constant: { a: [1, 'x'] },
    });
  });

  test('[J4] the braces of a condition may be left out', () => {
    for (const text of ['input.n == 3', '{{ input.n == 3 }}'])
      expect(evaluate(parseCondition(text), lookup)).toBe(true);
  });

  test('[J4] the paths an expression looks at are known before it runs', () => {
    expect(pathsOf(parseExpression('not (a.b == 1) or c[0] in [d.e, 2]'))).toEqual([
      ['a', 'b'],
      ['c', 0],
      ['d', 'e'],
    ]);
  });
});
