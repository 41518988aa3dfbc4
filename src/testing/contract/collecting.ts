import assert from 'node:assert/strict';
import { type Chunk, createChunk, type Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage, NewCheckpoint } from '../../storage/contract.ts';
import { type Builders, commitOf, contentOf, deletionOf, moveBranch, session } from './builders.ts';
import { assertSame, listDigests, rule } from './contract-test.ts';

const CHAIN_LENGTH = 10_000;
const WRITERS = 8;
const STEPS = 12;

const digestsOf = (...chunks: readonly Chunk[]): Digest[] => chunks.map((chunk) => chunk.digest).sort();

/** Collects again and again until the work is done, so that every commit of the work meets a collection. */
async function collectDuring(storage: ChunkStorage, work: Promise<unknown>): Promise<void> {
  let isDone = false;
  const finished = work.finally(() => {
    isDone = true;
  });
  while (!isDone) {
    await storage.collect();
    // A storage that does all in one turn would otherwise never let the work go on.
    await new Promise(setImmediate);
  }
  await finished;
}

/** One session whose states share chunks with the checkpoint before, which is deleted as soon as the next is there. */
async function writeAndForget(storage: ChunkStorage, make: Builders, sessionId: string): Promise<readonly Digest[]> {
  let head: NewCheckpoint | undefined;
  let kept: Chunk[] = [];
  for (let step = 0; step < STEPS; step++) {
    const fresh = make.chunk();
    kept = [...kept.slice(-3), fresh];
    const next = make.checkpoint({
      sessionId,
      root: contentOf(...kept),
      ...(head === undefined ? {} : { parent: head }),
    });
    const requires = head === undefined ? [] : [head.header.id];
    await storage.commit(commitOf(next, { chunks: [fresh], requires, refs: [moveBranch('main', next)] }));
    if (head !== undefined) await storage.deleteCheckpoints([deletionOf(head)]);
    head = next;
  }
  return kept.map((chunk) => chunk.digest);
}

/** Brings the same chunk in every step, whether it is garbage just now or not, and looks for it while it is in use. */
async function bringAgain(storage: ChunkStorage, make: Builders, hot: Chunk): Promise<void> {
  for (let step = 0; step < STEPS; step++) {
    const checkpoint = make.checkpoint({ root: contentOf(hot) });
    await storage.commit(commitOf(checkpoint, { chunks: [hot] }));
    assertSame(await storage.readChunks([hot.digest]), [hot]);
    await new Promise(setImmediate);
    assertSame(await storage.readChunks([hot.digest]), [hot]);
    await storage.deleteCheckpoints([deletionOf(checkpoint)]);
  }
}

export const collectingRules = [
  rule('[storage.16] a collection removes and counts just what nothing reaches', async ({ storage, make }) => {
    const [leaf, deadLeaf, orphan] = [make.chunk(), make.chunk(), make.chunk()];
    const node = createChunk(contentOf(leaf));
    const deadNode = createChunk(contentOf(deadLeaf, leaf));
    const live = make.checkpoint({ root: contentOf(node) });
    const dead = make.checkpoint({ root: contentOf(deadNode, node) });
    await storage.commit(commitOf(live, { chunks: [leaf, node, orphan] }));
    await storage.commit(commitOf(dead, { chunks: [deadNode, deadLeaf] }));
    assert.equal((await storage.collect()).chunks, 1);
    await storage.deleteCheckpoints([deletionOf(dead)]);
    const { chunks, bytes } = await storage.collect();
    assert.equal(chunks, 2);
    assert.ok(bytes >= 0 && Number.isFinite(bytes));
    assertSame(await listDigests(storage), digestsOf(leaf, node));
    assertSame(await storage.readChunks([deadNode.digest, leaf.digest]), [undefined, leaf]);
    assert.equal((await storage.collect()).chunks, 0);
  }),

  rule('[storage.16] a collection gives space back', async ({ storage, make }) => {
    const noise = () => Array.from({ length: 20_000 }, () => make.random.below(36).toString(36)).join('');
    const chunks = Array.from({ length: 50 }, () => make.chunk([], JSON.stringify(noise())));
    const checkpoint = make.checkpoint({ root: contentOf(...chunks) });
    await storage.commit(commitOf(checkpoint, { chunks }));
    const before = (await storage.stats()).bytes;
    await storage.deleteCheckpoints([deletionOf(checkpoint)]);
    const result = await storage.collect();
    assert.equal(result.chunks, 50);
    assert.ok(result.bytes > 0);
    assert.ok((await storage.stats()).bytes < before / 2, 'the storage is not smaller');
  }),

  rule('[storage.16] a collection of nothing, or one told to stop, loses nothing', async ({ storage, make }) => {
    assert.equal((await storage.collect()).chunks, 0);
    const chunk = make.chunk();
    await storage.commit(commitOf(make.checkpoint({ root: contentOf(chunk) }), { chunks: [chunk] }));
    await storage.collect({ signal: AbortSignal.abort() }).catch(() => undefined);
    await storage.collect({ signal: new AbortController().signal });
    assertSame(await storage.readChunks([chunk.digest]), [chunk]);
  }),

  rule('[storage.16] a chunk lives as long as one checkpoint of any session reaches it', async ({ storage, make }) => {
    const shared = make.chunk();
    const users = ['s-1', 's-1', 's-2'].map((sessionId) => make.checkpoint({ sessionId, root: contentOf(shared) }));
    for (const checkpoint of users) await storage.commit(commitOf(checkpoint, { chunks: [shared] }));
    for (const [n, checkpoint] of users.entries()) {
      await storage.deleteCheckpoints([deletionOf(checkpoint)]);
      await storage.collect();
      assertSame(await listDigests(storage), n < 2 ? [shared.digest] : []);
    }
  }),

  rule('[storage.16] effects keep their chunks until they or their session go', async ({ storage, make }) => {
    const sessionId = session('s-1');
    const [leaf, second] = [make.chunk(), make.chunk()];
    const node = createChunk(contentOf(leaf));
    const effects = [make.effect({ ordinal: 0, result: contentOf(node) })];
    await storage.commit({ sessionId, chunks: [leaf, node], effects });
    await storage.collect();
    assertSame(await listDigests(storage), digestsOf(leaf, node));
    await storage.commit({
      sessionId,
      chunks: [second],
      effects: [make.effect({ ordinal: 0, result: contentOf(second) })],
    });
    await storage.collect();
    assertSame(await listDigests(storage), digestsOf(second));
    await storage.deleteSession(sessionId);
    await storage.collect();
    assertSame(await listDigests(storage), []);
  }),

  rule('[storage.6] chains of references may be of any depth', async ({ storage, make }) => {
    const chain = [make.chunk()];
    while (chain.length < CHAIN_LENGTH) chain.push(createChunk(contentOf(...chain.slice(-1))));
    const checkpoint = make.checkpoint({ root: contentOf(...chain.slice(-1)) });
    await storage.commit(commitOf(checkpoint, { chunks: chain }));
    assert.equal((await storage.collect()).chunks, 0);
    await storage.deleteCheckpoints([deletionOf(checkpoint)]);
    assert.equal((await storage.collect()).chunks, CHAIN_LENGTH);
  }),

  rule('[storage.16] a chunk that is brought again after it became garbage stays', async ({ storage, make }) => {
    const chunk = make.chunk();
    const [a, b] = [make.checkpoint({ root: contentOf(chunk) }), make.checkpoint({ root: contentOf(chunk) })];
    await storage.commit(commitOf(a, { chunks: [chunk] }));
    await storage.deleteCheckpoints([deletionOf(a)]);
    await storage.commit(commitOf(b, { chunks: [chunk] }));
    await storage.collect();
    assertSame(await storage.readChunks([chunk.digest]), [chunk]);
    await storage.deleteCheckpoints([deletionOf(b)]);
    await storage.collect();
    await storage.commit(commitOf(make.checkpoint({ root: contentOf(chunk) }), { chunks: [chunk] }));
    assertSame(await storage.readChunks([chunk.digest]), [chunk]);
  }),

  rule('[storage.17] commits beside collections lose nothing', async ({ storage, make }) => {
    const writers = Array.from({ length: WRITERS }, (_, n) => writeAndForget(storage, make, `writer-${n}`));
    const work = Promise.all(writers);
    await collectDuring(storage, work);
    const wanted = (await work).flat();
    const found = await storage.readChunks(wanted);
    assert.ok(found.every((chunk) => chunk !== undefined));
    await storage.collect();
    assertSame(await listDigests(storage), wanted.toSorted());
  }),

  rule('[storage.17] garbage that is brought again beside collections is there', async ({ storage, make }) => {
    const hot = make.chunk();
    const writers = Array.from({ length: 4 }, () => bringAgain(storage, make, hot));
    await collectDuring(storage, Promise.all(writers));
    await storage.collect();
    assertSame(await listDigests(storage), []);
  }),

  rule('[storage.17] collections at the same time are harmless', async ({ storage, make }) => {
    const [live, dead] = [make.chunk(), make.chunk()];
    await storage.commit(commitOf(make.checkpoint({ root: contentOf(live) }), { chunks: [live, dead] }));
    const results = await Promise.all([storage.collect(), storage.collect(), storage.collect()]);
    assert.equal(
      results.reduce((sum, result) => sum + result.chunks, 0),
      1,
    );
    assertSame(await listDigests(storage), [live.digest]);
  }),
];
