import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { drawn } from '../../../test/support/trials.ts';
import { anyState, anyValue } from '../../../test/support/values.ts';
import { hasErrorCode } from '../errors.ts';
import { type Chunk, createChunk } from '../tree/chunk.ts';
import { DEFAULT_LIMITS, type ValueLimits } from '../value/format.ts';
import { StateCheck } from './state-check.ts';
import { findIn, StateCodec } from './state-codec.ts';

const codec = new StateCodec();

const findAmong = (chunks: readonly Chunk[]) => findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));

/** The smallest limit of this name under which something passes. */
function leastLimit(name: 'maxNodes' | 'maxDepth', passes: (limits: Partial<ValueLimits>) => void): number {
  const isEnough = (limit: number): boolean => {
    try {
      passes({ [name]: limit });
      return true;
    } catch {
      return false;
    }
  };
  let high = 1;
  while (!isEnough(high)) high *= 2;
  let low = Math.floor(high / 2) + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (isEnough(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const isOurs = (error: unknown) => hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'INVALID_INPUT');

const LARGE = {
  object: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`key ${at}`, { at, text: 'x'.repeat(at) }])),
  map: new Map(Array.from({ length: 500 }, (_, at) => [{ at }, 'y'.repeat(at)])),
  set: new Set(Array.from({ length: 1200 }, (_, at) => at)),
  list: Array.from({ length: 1200 }, (_, at) => ({ at, text: 'x'.repeat(at % 300) })),
  text: 'lorem ipsum '.repeat(5_000),
  bytes: new Float64Array(5_000),
};

describe('[value.6] reading has the limits of saving', () => {
  test('what was saved is read and checked under the limits that it was saved under', LATER, () => {
    fc.assert(
      fc.property(fc.oneof(anyValue, anyState), (value) => expectFits(value)),
      drawn(500),
    );
    expectFits(LARGE);
  });

  function expectFits(value: unknown): void {
    const { root, chunks, sizeBytes } = codec.encode(value);
    const save = (limits: Partial<ValueLimits>) => void new StateCodec({ limits }).encode(value);
    const limits = {
      maxNodes: leastLimit('maxNodes', save),
      maxDepth: leastLimit('maxDepth', save),
      maxBytes: sizeBytes,
    };
    const again = new StateCodec({ limits }).decode(root, findAmong(chunks));
    expect(codec.encode(again).root.digest).toBe(root.digest);
    const check = new StateCheck(limits);
    check.read(root, findAmong(chunks));
    check.read(root, findAmong(chunks));
  }

  test('a check counts what it knows already: what is too much for reading is too much for it', LATER, () => {
    const { root, chunks } = codec.encode(LARGE);
    const find = findAmong(chunks);
    for (const name of ['maxNodes', 'maxDepth'] as const) {
      const least = leastLimit(name, (limits) => void new StateCodec({ limits }).decode(root, find));
      const check = new StateCheck({ ...DEFAULT_LIMITS, [name]: least - 1 });
      for (let turn = 0; turn < 3; turn++)
        expect(() => check.read(root, find)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    }
  });

  test('chunks that refer to each other many times are not more than they say', () => {
    const chunks = [createChunk({ text: '["xxxxxxxx"]', refs: [] })];
    for (let level = 0; level < 40; level++) {
      const { digest } = chunks.at(-1) as Chunk;
      chunks.push(createChunk({ text: '[{"$":0},{"$":0}]', refs: [digest, digest] }));
    }
    const [root, find] = [chunks.at(-1) as Chunk, findAmong(chunks)];
    const limits = { ...DEFAULT_LIMITS, maxNodes: 100_000 };
    const limited = new StateCodec({ limits });
    for (const read of [() => limited.decode(root, find), () => new StateCheck(limits).read(root, find)])
      expect(read).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });

  test('what is nested too deep is refused with its path, in one chunk or in a row of them', () => {
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    expect(() => codec.decode({ text: `{"a":${deep}}`, refs: [] }, findIn(new Map()))).toThrow(/\$\.a\[0\]\[0\]/);
    for (const text of ['[{"$":0}]', '{"$":0}']) {
      const chunks = [createChunk({ text: '[]', refs: [] })];
      for (let at = 0; at < 20_000; at++) chunks.push(createChunk({ text, refs: [(chunks.at(-1) as Chunk).digest] }));
      const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
      expect(() => codec.decode(chunks.at(-1) as Chunk, find)).toThrow(expect.toSatisfy(isOurs));
    }
  });
});

describe('[value.7] what no state is encoded to is CORRUPT, with its path, for a check too', () => {
  const piece = createChunk({ text: '"AAA="', refs: [] });
  const list = createChunk({ text: '[1,2,3]', refs: [] });
  const bytes = createChunk({ text: '"AAAA"', refs: [] });
  const odd = createChunk({ text: '"A*"', refs: [] });
  const pair = createChunk({ text: '[["k",1]]', refs: [] });
  const counts = createChunk({ text: '[2]', refs: [list.digest] });
  test.each([
    ['{"a":', []],
    ['{"a":{"$":["Map",5]}}', []],
    ['{"a":{"$":["Map",[5]]}}', []],
    ['{"a":{"$":["Map",[[1,2,3]]]}}', []],
    ['{"a":{"$":["Set","abc"]}}', []],
    ['{"a":{"$":["Error","Error",null]}}', []],
    ['{"a":{"$":["RegExp","(",""]}}', []],
    ['{"a":{"$":["RegExp","a","","x"]}}', []],
    ['{"a":{"$":["bigint","x"]}}', []],
    ['{"a":{"$":["URL","::"]}}', []],
    ['{"a":{"$":["bare",null]}}', []],
    ['{"a":{"$":["object",[1]]}}', []],
    ['{"a":{"$":["fields",[["x"]]]}}', []],
    ['{"a":{"$":["BigInt64Array","AAAA"]}}', []],
    ['{"a":{"$":["number","Seven"]}}', []],
    ['{"a":{"$":["Function","alert()"]}}', []],
    ['{"a":{"$":[]}}', []],
    ['{"a":{"$":0}}', []],
    ['{"a":1}', [piece.digest]],
    ['{"a":{"$":["tree","text",1,[[1]]]}}', [list.digest]],
    ['{"a":{"$":["tree","Array",4,[[4],[]]]}}', [list.digest]],
    ['{"a":{"$":["tree","object",3,[[3],[]]]}}', [list.digest]],
    ['{"a":{"$":["tree","Map",3,[[3],[]]]}}', [list.digest]],
    ['{"a":{"$":["tree","Nothing",0,[[]]]}}', []],
    ['{"a":{"$":["tree","Array","3",[[3],[]]]}}', [list.digest]],
    ['{"a":{"$":["tree","Array",3]}}', []],
    ['{"a":{"$":["Set",[0,{"$":["number","-0"]}]]}}', []],
    ['{"a":{"$":["Map",[[{"$":["number","NaN"]},1],[{"$":["number","NaN"]},2]]]}}', []],
    ['{"a":{"$":["tree","Set",2,[[1,1]]]}}', []],
    ['{"a":{"$":["tree","Set",6,[[3,3],[]]]}}', [list.digest, list.digest]],
    ['{"a":{"$":["tree","Map",2,[[1,1],[]]]}}', [pair.digest, pair.digest]],
    ['{"a":{"$":["tree","Map",2,[[1],[["k",2]]]]}}', [pair.digest]],
    ['{"a":{"$":["tree","object",2,[[1],[["k",2]]]]}}', [pair.digest]],
    ['{"a":{"$":["tree","bare",2,[[["k",1],["k",2]]]]}}', []],
    ['{"a":{"$":["tree","Float64Array",1,[[{"$":0}]]]}}', [bytes.digest]],
    ['{"a":{"$":["tree","BigInt64Array",1,[[{"$":0}]]]}}', [bytes.digest]],
    ['{"a":{"$":["tree","Uint8Array",1,[[{"$":0}]]]}}', [odd.digest]],
    ['{"a":{"$":["tree","Uint8Array",1,[[5]]]}}', [bytes.digest]],
    ['{"a":{"$":["tree","Array",3,[[2],[9]]]}}', [list.digest]],
    ['{"a":{"$":["tree","Array",3,[[3],[],[]]]}}', [counts.digest]],
    ['{"a":{"$":["class",5,1]}}', []],
    ['{"a":{"$":["class","x",1,2]}}', []],
    ['{"a":{"$":["Map",[],1]}}', []],
  ])('%s', (text, refs) => {
    const find = findAmong([piece, list, bytes, odd, pair, counts]);
    const check = new StateCheck(DEFAULT_LIMITS);
    expect(() => codec.decode({ text, refs }, find)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
    for (let turn = 0; turn < 2; turn++)
      expect(() => check.read({ text, refs }, find)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
  });

  test.each(['{"a":1,"a":2}', '{ "a":1}', '{"a":-0}', '{"a":1.0}'])(
    'a check refuses %s, which is never written',
    (text) => {
      const check = new StateCheck(DEFAULT_LIMITS);
      expect(() => check.read({ text, refs: [] }, findAmong([]))).toThrow(/not written as chunks are/);
    },
  );

  test('objects of the same content are two elements, though they are one chunk', () => {
    const big = () => ({ text: 'x'.repeat(5000), list: [1, 2, 3] });
    const value = {
      set: new Set([big(), big()]),
      map: new Map([
        [big(), 1],
        [big(), 2],
      ]),
      many: new Set(Array.from({ length: 2000 }, () => ({}))),
    };
    const { root, chunks } = codec.encode(value);
    const check = new StateCheck(DEFAULT_LIMITS);
    for (let turn = 0; turn < 2; turn++) check.read(root, findAmong(chunks));
  });

  test('what states share is found once', () => {
    const list = Array.from({ length: 1200 }, (_, at) => ({ at, text: 'x'.repeat(at % 300) }));
    const one = codec.encode({ list });
    const two = codec.encode({ list: [...list, 'more'] });
    const find = findAmong([...one.chunks, ...two.chunks]);
    const check = new StateCheck(DEFAULT_LIMITS);
    check.read(one.root, find);
    let found = 0;
    check.read(two.root, (digest) => {
      found++;
      return find(digest);
    });
    expect(found).toBeLessThan(20);
  });

  test('with the path', () => {
    const read = () => codec.decode({ text: '{"a":[1,{"b":{"$":["Map",5]}}]}', refs: [] }, findIn(new Map()));
    expect(read).toThrow(expect.objectContaining({ code: 'CORRUPT', details: { path: '$.a[1].b' } }));
  });
});
