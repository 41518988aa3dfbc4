import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { anyState, isSameValue } from '../../../test/support/values.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import type { ClassCodec } from '../value/class-codec.ts';
import { type EncodedState, encodedKeys, encodedPart, findIn, StateCodec } from './state-codec.ts';

class Point {
  x: unknown;
  y: unknown;
  constructor(x: unknown, y: unknown) {
    this.x = x;
    this.y = y;
  }
}

/** The same class in another copy of its package. */
const Other = { Point: class Point {} };

const pointCodec = {
  tag: 'point',
  class: Point,
  recognises: (instance) => instance.constructor.name === 'Point',
  encode: (point) => ({ ...point }),
  readsOnlyFields: { except: ['kept'] },
  decode: (data) => Object.assign(new Point(0, 0), data),
} satisfies ClassCodec as ClassCodec;

const codec = new StateCodec({ classes: [pointCodec] });

function chunksOf(...states: readonly EncodedState[]): Map<Digest, ChunkContent> {
  return new Map(states.flatMap(({ chunks }) => chunks.map((chunk) => [chunk.digest, chunk] as const)));
}

const points = (count: number, text = '') =>
  Array.from({ length: count }, (_, at) => new Point(`${text}${at} `.repeat(60), { deep: [at] }));

describe('[value.3] what is known of a state need not be read again', () => {
  test('and comes out as if it had been', () => {
    fc.assert(
      fc.property(anyState, anyState, (state, other) => {
        const [encoded, another] = [codec.encode(state), codec.encode(other)];
        const known = codec.nearState(encoded);
        expect(isSameValue(codec.decode(encoded.root, findIn(chunksOf(encoded)), known), state)).toBe(true);
        expect(isSameValue(codec.decode(another.root, findIn(chunksOf(another)), known), other)).toBe(true);
      }),
      drawn(1000),
    );
  });

  test('a long list is read without its chunks, and the one before it nearly so', () => {
    const before = codec.encode({ list: points(300) });
    const after = codec.encode({ list: [...points(300), ...points(3, 'new ')] }, before);
    const known = codec.nearState(after);
    const find = (digest: Digest): never => expect.fail(`read ${digest}`);
    expect((codec.decode(after.root, find, known) as { list: Point[] }).list).toHaveLength(303);
    expect(codec.decode(before.root, find, known)).toEqual({ list: points(300) });
  });

  test('nothing that is made of it is shared', () => {
    const encoded = codec.encode({ list: points(40), bytes: new Uint8Array(3) });
    const decode = () =>
      codec.decode(encoded.root, findIn(chunksOf(encoded)), codec.nearState(encoded)) as {
        list: Point[];
        bytes: Uint8Array;
      };
    const first = decode();
    Object.assign(first.list[5] as Point, { x: 'changed' });
    (first.list[6] as { y: { deep: unknown[] } }).y.deep.push('changed');
    first.bytes.fill(9);
    expect(decode()).toEqual({ list: points(40), bytes: new Uint8Array(3) });
  });

  test('where secrets are left out, what was given is not what is stored', () => {
    const redacting = new StateCodec({ redact: () => '"[secret]"' });
    expect(redacting.nearState(redacting.encode({ a: 'x' }))).toBeUndefined();
  });
});

describe('[value.3] a part of a state before may stand in the next one', () => {
  test('for nothing, whatever became of the live value', () => {
    const live = { list: points(100), n: 1 };
    const before = codec.encode({ big: live, other: 'x'.repeat(500) });
    live.list.length = 0;
    const after = codec.encode({ big: encodedPart(before, ['big'])?.part, other: 'y' }, before);
    expect(after.chunks).toEqual([]);
    expect(codec.decode(after.root, findIn(chunksOf(before, after)))).toEqual({
      big: { list: points(100), n: 1 },
      other: 'y',
    });
  });

  test('parts are found by their keys', () => {
    const encoded = codec.encode({ a: { b: { c: 1 }, d: undefined }, list: [{ e: 1 }] });
    expect(encodedPart(encoded, ['a', 'b', 'c'])).toEqual({ part: 1 });
    expect(encodedPart(encoded, ['a', 'd'])).toEqual({ part: undefined });
    expect(encodedPart(encoded, ['a', 'x'])).toBeUndefined();
    expect(encodedPart(encoded, ['list', '0'])).toBeUndefined();
    expect(encodedPart(encoded, ['a', 'b', 'c', 'toString'])).toBeUndefined();
    expect(encodedKeys(encoded, ['a'])).toEqual(['b', 'd']);
    expect(encodedKeys(encoded, ['list'])).toEqual([]);
  });
});

describe('[value.2] a class with many instances is compared without encoding it', () => {
  const mutations: [string, (point: Point) => void][] = [
    ['a field', (point) => Object.assign(point, { x: 'other' })],
    ['a deep value', (point) => (point.y as { deep: unknown[] }).deep.push(1)],
    ['a stray property of an array', (point) => Object.assign((point.y as { deep: unknown[] }).deep, { 0: 'x' })],
    ['a new field', (point) => Object.assign(point, { z: undefined })],
    ['a lost field', (point) => Reflect.deleteProperty(point, 'y')],
    ['-0 for 0', (point) => Object.assign(point, { x: -0 })],
    ['another class for a value', (point) => Object.assign(point, { y: new Map() })],
    ['another prototype', (point) => Object.setPrototypeOf(point.y, null)],
    ['NaN', (point) => Object.assign(point, { x: Number.NaN })],
    ['an entry of a Map', (point) => ((point.y as { more: More }).more.map as Map<string, number>).set('a', 2)],
    ['a field of an instance inside', (point) => Object.assign((point.y as { more: More }).more.inner, { x: 2 })],
  ];
  type More = { map: Map<string, number>; inner: Point };

  test.each(mutations)('and a change in place is seen: %s', (what, mutate) => {
    const list = points(30);
    const more: Partial<More> = { inner: new Point(1, [Number.NaN]) };
    if (what.includes('Map')) more.map = new Map([['a', 1]]); // which a trace does not look into
    Object.assign(list[7] as Point, { x: 0, y: { deep: [7], more } });
    const before = codec.encode({ list });
    expect(codec.encode({ list }, before).root.digest).toBe(before.root.digest);
    mutate(list[7] as Point);
    const after = codec.encode({ list }, before);
    expect(after.root.digest).not.toBe(before.root.digest);
    expect(after.root.digest).toBe(codec.encode({ list }).root.digest);
  });

  test('and is not encoded while its fields hold what they held', () => {
    let encodings = 0;
    const encode = (point: object) => {
      encodings++;
      return { ...point };
    };
    const counting = new StateCodec({ classes: [{ ...pointCodec, encode }] });
    const list = points(30);
    Object.assign(list[3] as Point, { x: 0, y: [Number.NaN, -0, [], {}, Object.create(null)] });
    const before = counting.encode({ list });
    const after = counting.encode({ list: [...list] }, before);
    expect(encodings).toBe(30);
    counting.encode({ list: [...list, new Point(1, 1)] }, after);
    expect(encodings).toBe(31);
  });

  test('an array that was only made longer is refused, as it has holes', () => {
    const list = points(30);
    const before = codec.encode({ list });
    (list[3] as { y: { deep: unknown[] } }).y.deep.length = 2;
    expect(() => codec.encode({ list }, before)).toThrow('holes');
  });

  test('what cannot be saved is refused also if it got in later', () => {
    const list = points(30);
    const before = codec.encode({ list });
    (list[3] as { y: { deep: unknown[] } }).y.deep[0] = () => 1;
    expect(() => codec.encode({ list }, before)).toThrow('$.list[3].y.deep[0]');
  });

  test('what was frozen since is known to be', () => {
    const list = points(20).map(({ x }) => ({ x, tags: ['a'] }));
    const before = codec.encode({ list });
    for (const item of list) {
      Object.freeze(item.tags);
      Object.freeze(item);
    }
    const after = codec.encode({ list: [...list, { x: 'new', tags: [] }] }, before);
    expect(after.root.digest).toBe(codec.encode({ list: [...list, { x: 'new', tags: [] }] }).root.digest);
  });
});

test('[value.4] instances of another copy of a class are taken for it, if the codec says so', () => {
  const foreign = Object.assign(new Other.Point(), { x: 1, y: 2 });
  const { root } = codec.encode([foreign, new Point(3, 4)]);
  expect(codec.decode(root, findIn(new Map()))).toStrictEqual([new Point(1, 2), new Point(3, 4)]);
  class Unknown {}
  expect(() => codec.encode([new Unknown()])).toThrow('an instance of Unknown');
  expect(() => codec.encode([new Unknown()])).toThrow('an instance of Unknown');
});
