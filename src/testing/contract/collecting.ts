import assert from 'node:assert/strict';
import { type Chunk, createChunk } from '../../core/tree/chunk.ts';
import type { ChunkStorage, NewCheckpoint } from '../../storage/contract.ts';
import { type Builders, commitOf, contentOf, deletionOf, moveBranch, session } from './builders.ts';
import { assertSame, rule } from './contract-test.ts';

const CHAIN_LENGTH = 10_000;
const WRITERS = 8;
const STEPS = 12;

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
async function writeAndForget(storage: ChunkStorage, make: Builders, sessionId: string): Promise<readonly Chunk[]> {
  let head: NewCheckpoint | undefined;
  let kept: Chunk[] = [];
  for (let step = 0; step < STEPS; step++) {
    const fresh = make.chunk();
    kept = [...kept.slice(-3), fresh];
    const next = make.checkpoint({ sessionId, root: contentOf(...kept), ...(head && { parent: head }) });
    const requires = head === undefined ? [] : [head.header.id];
    await storage.commit(commitOf(next, { chunks: [fresh], requires, refs: [moveBranch('main', next)] }));
    if (head !== undefined) await storage.deleteCheckpoints([deletionOf(head)]);
    head = next;
  }
  return kept;
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
  rule('[storage.16] a collection removes and counts just what nothing reaches', async (context) => {
    const { storage, make, save, forget, leaves } = context;
    const [leaf, deadLeaf, orphan] = [make.chunk(), make.chunk(), make.chunk()];
    const node = createChunk(contentOf(leaf));
    const deadNode = createChunk(contentOf(deadLeaf, leaf));
    await save({ root: contentOf(node) }, { chunks: [leaf, node, orphan] });
    const dead = await save({ root: contentOf(deadNode, node) }, { chunks: [deadNode, deadLeaf] });
    assert.equal((await storage.collect()).chunks, 1);
    await forget(dead);
    const { chunks, bytes } = await storage.collect();
    assert.equal(chunks, 2);
    assert.ok(bytes >= 0 && Number.isFinite(bytes));
    assertSame(await storage.readChunks([deadNode.digest, leaf.digest]), [undefined, leaf]);
    assert.equal((await storage.collect()).chunks, 0);
    await leaves(leaf, node);
  }),

  rule('[storage.16] a collection gives space back', async ({ storage, make, save, forget }) => {
    const noise = () => Array.from({ length: 20_000 }, () => make.random.below(36).toString(36)).join('');
    const chunks = Array.from({ length: 50 }, () => make.chunk([], JSON.stringify(noise())));
    const checkpoint = await save({ root: contentOf(...chunks) }, { chunks });
    const before = (await storage.stats()).bytes;
    await forget(checkpoint);
    const result = await storage.collect();
    assert.equal(result.chunks, 50);
    assert.ok(result.bytes > 0);
    assert.ok((await storage.stats()).bytes < before / 2, 'the storage is not smaller');
  }),

  rule('[storage.16] a collection of nothing, or one told to stop, loses nothing', async ({ storage, make, save }) => {
    assert.equal((await storage.collect()).chunks, 0);
    const chunk = make.chunk();
    await save({ root: contentOf(chunk) }, { chunks: [chunk] });
    await storage.collect({ signal: AbortSignal.abort() }).catch(() => undefined);
    await storage.collect({ signal: new AbortController().signal });
    assertSame(await storage.readChunks([chunk.digest]), [chunk]);
  }),

  rule('[storage.16] a chunk lives as long as one checkpoint of any session reaches it', async (context) => {
    const { make, save, forget, leaves } = context;
    const shared = make.chunk();
    const parts = { root: contentOf(shared) };
    const users: NewCheckpoint[] = [];
    for (const sessionId of ['s-1', 's-1', 's-2'])
      users.push(await save({ sessionId, ...parts }, { chunks: [shared] }));
    for (const [n, checkpoint] of users.entries()) {
      await forget(checkpoint);
      await leaves(...(n < 2 ? [shared] : []));
    }
  }),

  rule('[storage.16] effects keep their chunks until they or their session go', async ({ storage, make, leaves }) => {
    const sessionId = session('s-1');
    const [leaf, second] = [make.chunk(), make.chunk()];
    const node = createChunk(contentOf(leaf));
    const put = (result: Chunk, chunks: readonly Chunk[]) =>
      storage.commit({ sessionId, chunks, effects: [make.effect({ ordinal: 0, result: contentOf(result) })] });
    await put(node, [leaf, node]);
    await leaves(leaf, node);
    await put(second, [second]);
    await leaves(second);
    await storage.deleteSession(sessionId);
    await leaves();
  }),

  rule('[storage.6] chains of references may be of any depth', async ({ storage, make, save, forget }) => {
    const chain = [make.chunk()];
    while (chain.length < CHAIN_LENGTH) chain.push(createChunk(contentOf(...chain.slice(-1))));
    const checkpoint = await save({ root: contentOf(...chain.slice(-1)) }, { chunks: chain });
    assert.equal((await storage.collect()).chunks, 0);
    await forget(checkpoint);
    assert.equal((await storage.collect()).chunks, CHAIN_LENGTH);
  }),

  rule('[storage.16] a chunk that is brought again after it became garbage stays', async (context) => {
    const { storage, make, save, forget } = context;
    const chunk = make.chunk();
    const bring = () => save({ root: contentOf(chunk) }, { chunks: [chunk] });
    await forget(await bring());
    const again = await bring();
    await storage.collect();
    assertSame(await storage.readChunks([chunk.digest]), [chunk]);
    await forget(again);
    await storage.collect();
    await bring();
    assertSame(await storage.readChunks([chunk.digest]), [chunk]);
  }),

  rule('[storage.17] commits beside collections lose nothing', async ({ storage, make, leaves }) => {
    const writers = Array.from({ length: WRITERS }, (_, n) => writeAndForget(storage, make, `writer-${n}`));
    const work = Promise.all(writers);
    await collectDuring(storage, work);
    const wanted = (await work).flat();
    assertSame(await storage.readChunks(wanted.map(({ digest }) => digest)), wanted);
    await leaves(...wanted);
  }),

  rule('[storage.17] garbage that is brought again beside collections is there', async ({ storage, make, leaves }) => {
    const hot = make.chunk();
    await collectDuring(storage, Promise.all(Array.from({ length: 4 }, () => bringAgain(storage, make, hot))));
    await leaves();
  }),

  rule('[storage.17] collections at the same time are harmless', async ({ storage, make, save, leaves }) => {
    const [live, dead] = [make.chunk(), make.chunk()];
    await save({ root: contentOf(live) }, { chunks: [live, dead] });
    const results = await Promise.all([storage.collect(), storage.collect(), storage.collect()]);
    const collected = results.reduce((sum, result) => sum + result.chunks, 0);
    assert.equal(collected, 1);
    await leaves(live);
  }),
];
