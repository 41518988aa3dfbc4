import { expect, test } from 'vitest';
import { findIn, StateCodec } from './state-codec.ts';

const codec = new StateCodec();
const decode = (text: string) => codec.decode({ text, refs: [] }, findIn(new Map()));

const NEVER_WRITTEN: readonly [tagged: string, path: string][] = [
  ['{"$":["bigint","0x10"]}', '$.a[1]'],
  ['{"$":["bigint","-0"]}', '$.a[1]'],
  ['{"$":["bigint"," 1 "]}', '$.a[1]'],
  ['{"$":["bigint",""]}', '$.a[1]'],
  ['{"$":["Uint8Array","!!!!"]}', '$.a[1]'],
  ['{"$":["Uint8Array","AB=="]}', '$.a[1]'],
  ['{"$":["Buffer","_-__"]}', '$.a[1]'],
  ['{"$":["Date",1e300]}', '$.a[1]'],
  ['{"$":["Date",0.5]}', '$.a[1]'],
  ['{"$":["Date",1,2]}', '$.a[1]'],
  ['{"$":["Date",1],"b":2}', '$.a[1]'],
  ['{"$":["RegExp","a","ig"]}', '$.a[1]'],
  ['{"$":["undefined",1,2]}', '$.a[1]'],
  ['{"$":["fields",[["1",2],["1",3]]]}', '$.a[1]'],
  ['{"$":["Map",[[1,2],[1,3]]]}', '$.a[1]'],
  ['{"$":["Map",[[1,2],[2,{"$":["Date",1e300]}]]]}', '$.a[1][1][1]'],
  ['{"$":["Set",["x","x"]]}', '$.a[1]'],
  ['{"$":["tree","Map",2,[[[1,2],[1,3]]]]}', '$.a[1]'],
  ['{"$":["tree","object",2,[[["k",2],["k",3]]]]}', '$.a[1]'],
];

test.each(NEVER_WRITTEN)(
  '[value.7] %s was never written: it is CORRUPT, with the path where it stands',
  (tagged, path) => {
    expect(() => decode(`{"a":[1,${tagged}]}`)).toThrow(
      expect.objectContaining({ code: 'CORRUPT', details: { path } }),
    );
  },
);

test('[value.6] a bigint of too many digits is refused before it takes seconds', () => {
  for (const value of [10n ** 100_000n, -(10n ** 100_000n), 2n ** 10_000_000n])
    expect(() => codec.encode({ list: [value] })).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', details: { path: '$.list[0]' } }),
    );
  for (const digits of ['9'.repeat(100_001), `-${'9'.repeat(100_001)}`, '9'.repeat(3_000_000)])
    expect(() => decode(`[{"$":["bigint","${digits}"]}]`)).toThrow(
      expect.objectContaining({ code: 'CORRUPT', details: { path: '$[0]' } }),
    );
  const greatest = -(10n ** 100_000n - 1n);
  expect(decode(codec.encode(greatest).root.text)).toBe(greatest);
});

class OwnName extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'OwnName';
  }
}

const withoutStack = new RangeError('x');
delete withoutStack.stack;
const ODD_ERRORS: readonly [string, Error][] = [
  ['an own name', new OwnName('x')],
  ['an assigned cause', Object.assign(new TypeError('x'), { code: 1, cause: new OwnName('inner') })],
  ['assigned errors', Object.assign(new Error('x'), { errors: [1], name: 'N', z: 1 })],
  ['a hidden cause', new Error('x', { cause: { a: 1 } })],
  ['a message that shows', Object.defineProperty(new Error('x'), 'message', { enumerable: true })],
  ['no stack', withoutStack],
  ['errors of its own', new AggregateError([new Error('y')], 'x')],
];

/** What there is to see of an error. */
function describeError(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const own = Object.entries(Object.getOwnPropertyDescriptors(value));
  const fields = own.map(([key, { value: field, enumerable }]) => [
    key,
    enumerable,
    describeError(field ?? value.stack),
  ]);
  const hidden = fields.filter(([key, isShown]) => isShown !== true && key !== 'name').toSorted();
  return {
    prototype: value.constructor.name,
    name: value.name,
    shown: Object.keys(value),
    hidden,
    fields: fields.length,
  };
}

test.each(ODD_ERRORS)('[value.1] an error with %s comes back as it was', (_, error) => {
  const { root, chunks } = codec.encode({ error });
  const read = codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])))) as { error: Error };
  const expected = describeError(error) as { prototype: string; fields: number };
  const isBuiltIn = ['Error', 'TypeError', 'RangeError', 'AggregateError'].includes(expected.prototype);
  expect(describeError(read.error)).toEqual(isBuiltIn ? expected : { ...expected, prototype: 'Error' });
  expect(codec.encode(read).root.digest).toBe(root.digest);
});
