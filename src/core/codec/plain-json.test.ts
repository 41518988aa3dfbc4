import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { anyState, isSameValue } from '../../../test/support/values.ts';
import { copyPlainJson } from './plain-json.ts';
import { StateCodec } from './state-codec.ts';

/** It could redact, so it takes the long way. */
const thorough = new StateCodec({ redact: () => undefined });
const codec = new StateCodec();

test('[value.1] the short way to the JSON form of a value leads to the same as the long one', () => {
  fc.assert(
    fc.property(fc.oneof(anyState, fc.jsonValue()), (value) => {
      expect(JSON.stringify(codec.encodeJson(value))).toBe(JSON.stringify(thorough.encodeJson(value)));
      expect(isSameValue(codec.decodeJson(codec.encodeJson(value)), value)).toBe(true);
    }),
    drawn(1000),
  );
});

test('what is copied is a copy', () => {
  const value = { list: [{ a: 1 }], text: 'x' };
  const copy = copyPlainJson(value);
  expect(copy).toEqual(value);
  value.list.push({ a: 2 });
  expect(copy).toEqual({ list: [{ a: 1 }], text: 'x' });
});

test.each([
  ['-0', -0],
  ['NaN', Number.NaN],
  ['undefined inside', { a: undefined }],
  ['a date', new Date(0)],
  ['a bare object', Object.create(null)],
  ['a first key that looks like a tag', { $: 1 }],
  ['a key with an escape', { 'a"b': 1 }],
  ['an own __proto__', JSON.parse('{"__proto__":1}')],
  ['an array with a hole', Object.assign([], { length: 2 })],
  ['an array with a property', Object.assign([1], { extra: 1 })],
  ['a symbol as key', { [Symbol('s')]: 1 }],
  ['what is deep', JSON.parse(`${'['.repeat(12)}${']'.repeat(12)}`)],
])('is left to the long way: %s', (_, value) => {
  expect(copyPlainJson(value)).toBeUndefined();
  expect(copyPlainJson([value])).toBeUndefined();
});
