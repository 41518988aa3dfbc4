import fc from 'fast-check';

export { isSameValue } from './same-value.ts';

/** Any code point; fast-check's own `binary` has a table that takes more than a second to make. */
export const anyCharacter = fc
  .oneof(fc.nat(0xd7ff), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code));

const hostileKey = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  '$',
  '',
  '0',
  '10',
  'a',
  'b',
  'c',
  'lc',
  'hasOwnProperty',
  '$ref',
);
const text = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 12 }),
  fc.constantFrom('\ud800', 'a\udfff', '\u0000', '{"$":0}', '{"$":["undefined"]}', '"', '\\', '€😀'),
  fc.string({ minLength: 200, maxLength: 700 }),
);
const primitive = fc.oneof(
  text,
  fc.integer(),
  fc.double(),
  fc.constantFrom(null, undefined, true, false, Number.NaN, -0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
  fc.bigInt(),
);
const markerLookAlike = fc.constantFrom(
  { $: 0 },
  { $: ['undefined'] },
  { $: ['Date', 3] },
  { $: { $: 0 } },
  { lc: 1, type: 'constructor', id: ['x'] },
  { lc: 2, type: 'undefined' },
);
const atom = fc.oneof(
  fc.date({ noInvalidDate: true }), // Node 20 takes two invalid dates for different; they have a test of their own
  fc.uint8Array({ maxLength: 40 }),
  fc.float32Array({ maxLength: 8 }),
  fc.bigInt64Array({ maxLength: 4 }),
  fc.constantFrom(new URL('http://a.example/x?y=1#z'), /a+\/b/giu, Buffer.from('bytes'), new ArrayBuffer(3)),
);

type Shape = { readonly value: unknown; readonly list: unknown[]; readonly record: Record<string, unknown> };

function define(entries: [string, unknown][]): Record<string, unknown> {
  const target: Record<string, unknown> = {};
  for (const [key, value] of entries)
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  return target;
}

const shapes = fc.letrec<Shape>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { arbitrary: primitive, weight: 5 },
    { arbitrary: atom, weight: 1 },
    { arbitrary: markerLookAlike, weight: 1 },
    { arbitrary: tie('record'), weight: 3 },
    { arbitrary: tie('list'), weight: 3 },
    {
      arbitrary: fc.array(fc.tuple(tie('value'), tie('value')), { maxLength: 6 }).map((pairs) => new Map(pairs)),
      weight: 1,
    },
    { arbitrary: fc.array(tie('value'), { maxLength: 6 }).map((items) => new Set(items)), weight: 1 },
    { arbitrary: tie('record').map((fields) => Object.assign(Object.create(null), fields)), weight: 1 },
    { arbitrary: text.map((message) => Object.assign(new TypeError(message), { code: 'E_TEST' })), weight: 1 },
  ),
  list: fc.array(tie('value'), { maxLength: 14 }),
  record: fc
    .uniqueArray(fc.tuple(fc.oneof(hostileKey, text), tie('value')), { maxLength: 7, selector: ([key]) => key })
    .map(define),
}));

/** Any value that can be saved. */
export const anyValue: fc.Arbitrary<unknown> = shapes.value;

/** A state as agents have it: a long list of messages, a few other fields. */
export const anyState: fc.Arbitrary<Record<string, unknown>> = fc.record({
  messages: fc.array(fc.record({ role: fc.constantFrom('user', 'assistant'), content: text, extra: shapes.value }), {
    maxLength: 60,
  }),
  numbers: fc.array(fc.integer(), { maxLength: 600 }),
  files: fc.dictionary(fc.string({ maxLength: 8 }), fc.record({ size: fc.integer(), body: text }), { maxKeys: 50 }),
  rest: shapes.value,
});
