import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anyState, anyValue, trials } from '../../../test/support/values.ts';
import { hasErrorCode } from '../errors.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest } from '../tree/chunk.ts';
import { type ChunkMeasure, checkMeasure, measureChunk } from './measure.ts';
import { findIn, StateCodec } from './state-codec.ts';

const codec = new StateCodec();

/** Measures chunks, those they refer to first. */
class Measures {
  readonly #chunks: ReadonlyMap<Digest, ChunkContent>;
  readonly #known = new Map<Digest, ChunkMeasure>();

  constructor(chunks: readonly Chunk[]) {
    this.#chunks = new Map(chunks.map((chunk) => [chunk.digest, chunk]));
  }

  measure(content: ChunkContent): ChunkMeasure {
    for (const digest of content.refs)
      if (!this.#known.has(digest)) this.#known.set(digest, this.measure(findIn(this.#chunks)(digest)));
    return measureChunk(content, (digest) => this.#known.get(digest));
  }
}

const isOurs = (error: unknown) => hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'INVALID_INPUT');

const LARGE = {
  object: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`key ${at}`, { at, text: 'x'.repeat(at) }])),
  map: new Map(Array.from({ length: 500 }, (_, at) => [{ at }, 'y'.repeat(at)])),
  set: new Set(Array.from({ length: 5000 }, (_, at) => at)),
  list: Array.from({ length: 5000 }, (_, at) => ({ at, text: 'x'.repeat(at % 300) })),
  text: 'lorem ipsum '.repeat(20_000),
  bytes: new Float64Array(20_000),
};

describe('[value.6] reading has the limits of saving', () => {
  test('what was saved is measured as no more than was counted then, and read under the same limits', () => {
    fc.assert(
      fc.property(fc.oneof(anyValue, anyState), (value) => expectFits(value)),
      { numRuns: trials(3000) },
    );
    expectFits(LARGE);
  });

  function expectFits(value: unknown): void {
    const { root, chunks, sizeBytes } = codec.encode(value);
    const { nodes, depth } = new Measures(chunks).measure(root);
    const limits = { maxNodes: nodes, maxDepth: depth, maxBytes: sizeBytes };
    const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
    const again = new StateCodec({ limits }).decode(root, find);
    expect(codec.encode(again).root.digest).toBe(root.digest);
    const less = new StateCodec({ limits: { ...limits, maxNodes: nodes - 1 } });
    expect(() => less.decode(root, find)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    if (depth === 0) return;
    const flatter = new StateCodec({ limits: { ...limits, maxDepth: depth - 1 } });
    expect(() => flatter.decode(root, find)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  }

  test('chunks that refer to each other many times are not more than they say', () => {
    const chunks = [createChunk({ text: '["xxxxxxxx"]', refs: [] })];
    for (let level = 0; level < 40; level++) {
      const { digest } = chunks.at(-1) as Chunk;
      chunks.push(createChunk({ text: '[{"$":0},{"$":0}]', refs: [digest, digest] }));
    }
    const root = chunks.at(-1) as Chunk;
    const measure = new Measures(chunks).measure(root);
    expect(measure.nodes).toBeGreaterThan(2 ** 40);
    expect(() => checkMeasure(measure, codec.limits)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
    expect(() => codec.decode(root, find)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
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

describe('[value.7] what no state is encoded to is CORRUPT, with its path, and named by the measure too', () => {
  const piece = createChunk({ text: '"AAA="', refs: [] });
  const list = createChunk({ text: '[1,2,3]', refs: [] });
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
  ])('%s', (text, refs) => {
    const chunks = [piece, list];
    const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
    expect(() => codec.decode({ text, refs }, find)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
    expect(() => new Measures(chunks).measure({ text, refs })).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
  });

  test('with the path', () => {
    const read = () => codec.decode({ text: '{"a":[1,{"b":{"$":["Map",5]}}]}', refs: [] }, findIn(new Map()));
    expect(read).toThrow(expect.objectContaining({ code: 'CORRUPT', details: { path: '$.a[1].b' } }));
  });
});
