import type { Random } from '../../../src/testing/contract/random.ts';

/** What programs stumble over: ends of texts and numbers, names of the language, marks of our format, and much of one thing. */
const TOKENS = [
  '', '\0', '\uD800', '\uDC00', '\uFEFF', '\u2028', '\r\n', '\t', ' ', '\\', '"', "'", '`', '{', '}', '[', ']', '(', ')', '{}', '[]',
  ',', ':', '-', '~', '@', '^', '/', '..', '../../etc/passwd', '%00', '%2e%2e%2f', '%', '#', '?', '&', '=', '*', '!', '<', '>', '|',
  '__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '$', '$ref', '"$"', '{"$":["Date",1]}', '{"$":["tree","Array",2,[]]}',
  '0', '-0', '-1', '1e999', '1e-400', '9007199254740993', '4294967296', '0x10', 'NaN', 'Infinity', 'null', 'true', 'undefined',
  '2026-02-30T25:61:61Z', '-271821-04-20T00:00:00Z', '&a', '*a', '<<: *a', '!!js/function', '!!binary', '---\n', '- ', '? ', '{{', '}}', '{{ a }}',
  'é', 'e\u0301', '\u{1F600}', '\u202E', 'ﬀ', 'İ', 'a'.repeat(5_000), '['.repeat(2_000), '('.repeat(2_000), '{"a":'.repeat(2_000), '!'.repeat(2_000), '0'.repeat(2_000),
  '- '.repeat(1_000), '{{ '.repeat(500), '~'.repeat(2_000), '1+'.repeat(2_000), ' or a'.repeat(1_000),
] as const; // biome-ignore format: a list to look at

const VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -0,
  -1,
  1,
  0.5,
  1e308,
  2 ** 53,
  '',
  ' ',
  '__proto__',
  'a',
  '\uD800',
  '\0',
  [],
  {},
  [[]],
  [null],
  { $: ['Date', 1e300] },
  { $: ['bigint', '9'.repeat(100)] },
  { ['__proto__']: { polluted: 1 } },
  JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
  'x'.repeat(10_000),
  Array.from({ length: 1_000 }, () => 0),
];

const MAX_CHANGES = 4;
/** Longer inputs would only take longer. */
const MAX_CHARS = 200_000;

const pickOf = <Item>(random: Random, items: readonly Item[]): Item => items[random.below(items.length)] as Item;

/** A text with a few random changes; now and then with a part of another one in it. */
export function mutateText(random: Random, text: string, others: readonly string[]): string {
  let changed = text;
  for (let left = 1 + random.below(MAX_CHANGES); left > 0; left--) changed = changeText(random, changed, others);
  return changed.slice(0, MAX_CHARS);
}

function changeText(random: Random, text: string, others: readonly string[]): string {
  const from = random.below(text.length + 1);
  const to = Math.min(text.length, from + random.below(random.below(4) === 0 ? text.length + 1 : 8));
  const [before, part, after] = [text.slice(0, from), text.slice(from, to), text.slice(to)];
  const other = pickOf(random, others);
  switch (random.below(8)) {
    case 0:
      return before + after;
    case 1:
      return before + part + part + after;
    case 2:
      return before;
    case 3:
      return before + String.fromCharCode(random.below(0x1_00_00)) + after;
    case 4:
      return before + other.slice(random.below(other.length + 1)) + after;
    case 5:
      return before + part.split('').reverse().join('') + after;
    case 6:
      return (
        before +
        String(
          pickOf(
            random,
            VALUES.map((value) => JSON.stringify(value)),
          ),
        ) +
        after
      );
    default:
      return before + pickOf(random, TOKENS) + after;
  }
}

/** A value of JSON in which some parts were replaced, removed, renamed, repeated or wrapped. */
export function mutateJson(random: Random, value: unknown): unknown {
  if (random.below(6) === 0) return changeJson(random, value);
  if (Array.isArray(value)) {
    if (value.length === 0) return changeJson(random, value);
    const at = random.below(value.length);
    return value.map((item, index) => (index === at ? mutateJson(random, item) : (item as unknown)));
  }
  if (typeof value !== 'object' || value === null) return changeJson(random, value);
  const entries = Object.entries(value);
  if (entries.length === 0) return changeJson(random, value);
  const at = random.below(entries.length);
  return fromEntries(entries.map(([key, item], index) => [key, index === at ? mutateJson(random, item) : item]));
}

function changeJson(random: Random, value: unknown): unknown {
  const token = pickOf(random, TOKENS);
  switch (random.below(6)) {
    case 0:
      return [value, value];
    case 1:
      return fromEntries([[token, value]]);
    case 2:
      return typeof value === 'string' ? mutateText(random, value, [token]) : token;
    case 3:
      return Array.isArray(value) ? value.slice(1) : fromEntries(Object.entries(Object(value) as object).slice(1));
    case 4:
      return typeof value === 'object' && value !== null ? { ...value, [token]: pickOf(random, VALUES) } : [value];
    default:
      return pickOf(random, VALUES);
  }
}

/** Keeps every name, `__proto__` too. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): object {
  const object = {};
  for (const [key, value] of entries)
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  return object;
}

/** Any name or text that somebody could give. */
export function anyText(random: Random, known: readonly string[]): string {
  if (random.below(3) > 0) return pickOf(random, known);
  return random.below(2) === 0 ? pickOf(random, TOKENS) : mutateText(random, pickOf(random, known), known);
}
