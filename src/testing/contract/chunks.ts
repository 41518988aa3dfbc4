import assert from 'node:assert/strict';
import type { CheckpointId } from '../../core/record/id.ts';
import { type Chunk, checkChunk, createChunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import { commitOf, contentOf, session } from './builders.ts';
import { assertSame, listDigests, readPages, rule } from './contract-test.ts';
import { HOSTILE_TEXTS } from './hostile-text.ts';

/** Above the number of variables that one SQLite statement takes. */
const MANY_DIGESTS = 33_000;

/** JSON texts of every kind of character, as the codec writes them: control characters and lone surrogates escaped. */
const JSON_TEXTS = [
  '0',
  'null',
  '{}',
  '[]',
  '""',
  ' [1]',
  '"#"',
  '{"$":0}',
  '"\\ud800"',
  '"\\u0000"',
  '{"__proto__":1}',
];
const TEXTS: readonly string[] = [
  ...HOSTILE_TEXTS.map((text) => JSON.stringify(text)),
  ...JSON_TEXTS,
  JSON.stringify(Array.from({ length: 0x800 }, (_, code) => String.fromCharCode(code)).join('')),
  JSON.stringify('\ufffd\uffff\ue000\u{10ffff}\u{10000}'),
];

export const chunkRules = [
  rule('[storage.5] chunks come as asked for, repeats included, undefined where absent', async ({ storage, make }) => {
    const [a, b, c] = [make.chunk(), make.chunk(), make.chunk()];
    await storage.commit({ sessionId: session('s-1'), chunks: [a, b, c] });
    const absent = digestText('absent');
    const found = await storage.readChunks([c.digest, absent, a.digest, c.digest, b.digest]);
    assert.equal(found[1], undefined);
    assertSame(found, [c, undefined, a, c, b]);
    assertSame(await storage.readChunks([]), []);
  }),

  rule('[storage.5] any number of chunks can be asked for at once', async ({ storage, make }) => {
    const chunk = make.chunk();
    await storage.commit({ sessionId: session('s-1'), chunks: [chunk] });
    const asked = Array.from({ length: MANY_DIGESTS }, (_, n) => digestText(`${n}`));
    const found = await storage.readChunks([...asked, chunk.digest]);
    assert.equal(found.length, MANY_DIGESTS + 1);
    assert.ok(found.slice(0, -1).every((item) => item === undefined));
    assertSame(found.at(-1), chunk);
  }),

  rule('[storage.5] what is no digest is not found', async ({ storage, make }) => {
    const chunk = make.chunk();
    await storage.commit({ sessionId: session('s-1'), chunks: [chunk] });
    const near = [chunk.digest.slice(0, -1), chunk.digest.toUpperCase(), `${chunk.digest}0`, chunk.digest.slice(0, 32)];
    const found = await storage.readChunks([...near, ...HOSTILE_TEXTS] as Digest[]);
    assert.ok(found.every((item) => item === undefined));
  }),

  rule('[storage.5] a chunk brought twice is stored once', async ({ storage, make }) => {
    const [a, b] = [make.chunk(), make.chunk()];
    await storage.commit({ sessionId: session('s-1'), chunks: [a, b, a] });
    await storage.commit({ sessionId: session('s-2'), chunks: [b, createChunk(a)] });
    assertSame(await listDigests(storage), [a.digest, b.digest].sort());
    assert.equal((await storage.stats()).chunks, 2);
    assertSame(await storage.readChunks([a.digest, b.digest]), [a, b]);
  }),

  rule('[storage.6] texts with every kind of character come back as they went in', async ({ storage, make, holds }) => {
    const chunks = TEXTS.map((text) => make.chunk([], text));
    const checkpoints = TEXTS.map((text) => make.checkpoint({ root: { text, refs: [] }, note: text }));
    const effects = TEXTS.map((text, ordinal) => make.effect({ ordinal, body: text, result: { text, refs: [] } }));
    await storage.commit({ sessionId: session('s-1'), chunks, effects });
    await Promise.all(checkpoints.map((checkpoint) => storage.commit(commitOf(checkpoint))));
    const found = await storage.readChunks(chunks.map((chunk) => chunk.digest));
    assertSame(found, chunks);
    for (const chunk of found) checkChunk(chunk as Chunk);
    await holds(...checkpoints);
    assertSame(await storage.readEffects({ sessionId: 's-1' }), effects);
  }),

  rule('[storage.6] a text of a megabyte comes back as it went in', async ({ storage, make, save }) => {
    const text = JSON.stringify(Array.from({ length: 40_000 }, (_, n) => `${n} "zeile" 😀 \\ é\n`));
    assert.ok(text.length > 1_000_000);
    const chunk = make.chunk([], text);
    const effect = make.effect({ ordinal: 0, body: text, result: { text, refs: [] } });
    const rest = { chunks: [chunk], effects: [effect] };
    const { header, body } = await save({ root: { text, refs: [] }, contextSummary: text }, rest);
    const [found] = await storage.readChunks([chunk.digest]);
    const row = await storage.readCheckpoint(header.id);
    const [entry] = await storage.readEffects({ sessionId: 's-1' });
    const texts = [found?.text, row?.root?.text, entry?.body, entry?.result?.text];
    assert.ok(texts.every((item) => item === text));
    assert.ok(row?.body === body);
  }),

  rule('[storage.6] references keep their order and their repeats', async ({ storage, make, save, holds }) => {
    const [a, b] = [make.chunk(), make.chunk()];
    const node = createChunk(contentOf(b, a, b, b, a));
    const effect = make.effect({ ordinal: 0, result: contentOf(b, b, a) });
    const rest = { chunks: [a, b, node], effects: [effect] };
    await holds(await save({ root: contentOf(node, a, node) }, rest));
    assertSame(await storage.readChunks([node.digest]), [node]);
    assertSame(await storage.readEffects({ sessionId: 's-1' }), [effect]);
  }),

  rule('[storage.6] a chunk and a root may have a thousand references', async ({ storage, make, save, holds }) => {
    const leaves = Array.from({ length: 1_000 }, () => make.chunk());
    const node = createChunk(contentOf(...leaves));
    await holds(await save({ root: contentOf(...leaves, node) }, { chunks: [...leaves, node] }));
    assertSame(await storage.readChunks([node.digest]), [node]);
    assert.equal((await storage.collect()).chunks, 0);
  }),

  rule('[storage.5] what is reachable is every chunk below that is there, once', async ({ storage, make, save }) => {
    const leaves = Array.from({ length: 3_000 }, () => make.chunk());
    const nodes = [createChunk(contentOf(...leaves.slice(0, 1_500))), createChunk(contentOf(...leaves.slice(1_400)))];
    const top = createChunk(contentOf(...nodes, ...leaves.slice(0, 2), ...nodes));
    const other = make.chunk();
    await save({ root: contentOf(top, other) }, { chunks: [...leaves, ...nodes, top, other] });
    const sorted = (chunks: readonly Chunk[]) => chunks.toSorted((a, b) => (a.digest < b.digest ? -1 : 1));
    assertSame(sorted(await storage.readReachable([top.digest, top.digest])), sorted([...leaves, ...nodes, top]));
    assertSame(await storage.readReachable([make.chunk().digest, other.digest]), [other]);
    assertSame(await storage.readReachable([]), []);
  }),

  rule('[storage.5] listing chunks gives each digest once, page by page', async ({ storage, make }) => {
    const chunks = Array.from({ length: 25 }, () => make.chunk());
    await storage.commit({ sessionId: session('s-1'), chunks });
    const found = await readPages<Digest>((cursor) => storage.listChunks({ ...cursor, limit: 7 }));
    assertSame(found, await storage.listChunks({ limit: 25 }));
    assertSame(found.sort(), chunks.map((chunk) => chunk.digest).sort());
    assertSame(await storage.listChunks({ limit: 0 }), []);
  }),

  rule('[storage.5] a checkpoint is read with its root; an unknown one is undefined', async (context) => {
    const { storage, store, holds } = context;
    const [a, b] = await store([{}, { root: { text: '[]', refs: [] } }]);
    await holds(a, b);
    const near = [a.header.id.slice(0, -1), a.header.id.toUpperCase(), `${a.header.id}0`, 'chk_'];
    for (const id of [...near, ...HOSTILE_TEXTS])
      assert.equal(await storage.readCheckpoint(id as CheckpointId), undefined);
  }),
];
