import { describe, expect, test, vi } from 'vitest';
import { evaluate } from '../../../core/expression/evaluate.ts';
import { parseCondition, parseTemplate, render } from './template.ts';

const names: Record<string, unknown> = {
  input: { n: 3, none: null, list: [1, 2] },
  steps: new Map([['fetch', { status: 'done', output: { items: ['a', 'b'] } }]]),
};
const lookup = (root: string): unknown => names[root];

describe('templates', () => {
  test('[workflow.4] a text that is one reference becomes its value; others become texts', () => {
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

  test('[workflow.4] values that JSON does not have are written out; what is not there is null', () => {
    const values: Record<string, unknown> = {
      big: 10n,
      map: new Map<unknown, unknown>([['k', { n: 5n }]]),
      odd: new Map([[1, 'a']]),
      set: new Set([1n]),
      date: new Date(0),
      nan: Number.NaN,
      list: [7, 8],
    };
    const rendered = (value: unknown) => render(parseTemplate(value), () => values);
    expect(rendered('{{ v.big }} {{ v.map }} {{ v.odd }} {{ v.set }} {{ v.date }} {{ v.nan }} <{{ v.nope }}>')).toBe(
      '10 {"k":{"n":"5"}} [[1,"a"]] ["1"] 1970-01-01T00:00:00.000Z NaN <>',
    );
    expect(rendered({ a: '{{ v.nope }}', b: '{{ v.list[0.5] }}', c: '{{ v.big }}' })).toEqual({
      a: null,
      b: null,
      c: 10n,
    });
  });

  test('[workflow.4] the braces of a condition may be left out', () => {
    for (const text of ['input.n == 3', '{{ input.n == 3 }}'])
      expect(evaluate(parseCondition(text), lookup)).toBe(true);
  });

  test('[workflow.4] a template is gone over once: braces that never close are refused at the first of them', () => {
    const partsRead = vi.spyOn(RegExp.prototype, 'test');
    for (const text of ['{{'.repeat(50_000), `{{ "${'{{ "'.repeat(20_000)}`, `${'{{ a } '.repeat(20_000)}`])
      expect(() => parseTemplate(text)).toThrow(/"\{\{" begins a reference that "\}\}" does not end/);
    expect(partsRead.mock.calls.length).toBeLessThan(400_000);
    vi.restoreAllMocks();
  });

  test('[workflow.4] what references come to is bounded', () => {
    const large = 'x'.repeat(2 ** 20);
    const template = parseTemplate('{{ input }}'.repeat(100));
    expect(() => render(template, () => large)).toThrow(/more than 67108864 characters/);
  });

  test('[workflow.4] quotes inside a string in quotes are escaped', () => {
    expect(render(parseTemplate('{{ "a \\"}}\\" b" }}!'), lookup)).toBe('a "}}" b!');
  });
});
