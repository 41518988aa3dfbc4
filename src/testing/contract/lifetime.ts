import assert from 'node:assert/strict';
import { hasErrorCode } from '../../core/errors.ts';
import type { ChunkStorage, NewCheckpoint } from '../../storage/contract.ts';
import { type Builders, commitOf, contentOf, deletionOf, rowWithRootOf, session } from './builders.ts';
import {
  ALL,
  assertRejects,
  assertSame,
  type ContractContext,
  everything,
  listDigests,
  readAll,
  reopenRule,
  rule,
} from './contract-test.ts';
import { HOSTILE_NAMES } from './hostile-text.ts';

/** Fills a storage with some of everything: rows, refs, effects, chunks, tombstones, keys. */
async function populate({ storage, make, save, forget }: ContractContext): Promise<void> {
  for (const sessionId of ['s-1', 's-2', ...HOSTILE_NAMES.slice(0, 12)]) {
    const [chunk, resultChunk] = [make.chunk(), make.chunk()];
    const metadata = { k: [1, { a: 'é😀' }] };
    const a = await save({ sessionId, userId: 'u', metadata, root: contentOf(chunk) }, { chunks: [chunk], from: null });
    const effects = [
      make.effect({ sessionId, ordinal: 0, result: contentOf(resultChunk) }),
      make.effect({ sessionId, ordinal: 1 }),
    ];
    await save(
      { sessionId, parent: a, root: contentOf(chunk, resultChunk), idempotencyKey: 'once' },
      { chunks: [resultChunk], effects, from: a.header.id, requires: [a.header.id] },
    );
    await forget(a);
  }
  const refs = [{ kind: 'mark', name: 'soft', target: 'x' } as const];
  await storage.commit({ sessionId: session('s-1'), refs, durability: 'relaxed' });
}

/** Writes over everything in a value that lets itself be written over. */
function scribble(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const key of Object.keys(value)) {
    scribble(Reflect.get(value, key));
    Reflect.set(value, key, 'scribbled');
  }
  if (Array.isArray(value)) Reflect.set(value, value.length, 'scribbled');
  else Reflect.set(value, 'scribbled', true);
}

/** One call of each method. */
const CALLS: readonly ((storage: ChunkStorage, make: Builders) => Promise<unknown>)[] = [
  (storage, make) => storage.commit(commitOf(make.checkpoint())),
  (storage, make) => storage.readChunks([make.chunk().digest]),
  (storage, make) => storage.readCheckpoint(make.id()),
  (storage) => storage.listCheckpoints({ limit: 1 }),
  (storage) => storage.readRefs(),
  (storage) => storage.readEffects({ sessionId: 's-1' }),
  (storage) => storage.listSessions({ limit: 1 }),
  (storage, make) => storage.deleteCheckpoints([deletionOf(make.checkpoint())]),
  (storage) => storage.deleteSession(session('s-1')),
  (storage) => storage.collect(),
  (storage) => storage.listChunks({ limit: 1 }),
  (storage) => storage.checkIntegrity(),
  (storage) => storage.stats(),
];

/** Stores many checkpoints at once, each in a session of its own; all have one chunk in common. */
function commitApart({ storage, make }: ContractContext, count: number): Promise<NewCheckpoint>[] {
  const shared = make.chunk();
  return Array.from({ length: count }, async (_, n) => {
    const checkpoint = make.checkpoint({ sessionId: `s-${n}`, root: contentOf(shared) });
    const commit = commitOf(checkpoint, { chunks: [shared], from: null });
    assertSame(await storage.commit(commit), { status: 'stored' });
    return checkpoint;
  });
}

export const lifetimeRules = [
  rule('[storage.17] a hundred commits at once on a hundred sessions are all stored', async (context) => {
    const { storage, holds } = context;
    const stored = await Promise.all(commitApart(context, 100));
    await holds(...stored);
    assert.equal((await storage.readRefs({ kind: 'branch' })).length, 100);
    assertSame(await listDigests(storage), stored[0]?.root.refs);
  }),

  rule('[storage.17] of twenty commits at once on one branch, one leaves a trace', async (context) => {
    const { storage, make, save, finds } = context;
    const base = await save({}, { from: null });
    const rivals = Array.from({ length: 20 }, () => {
      const chunk = make.chunk();
      const checkpoint = make.checkpoint({ parent: base, root: contentOf(chunk) });
      return { checkpoint, commit: commitOf(checkpoint, { chunks: [chunk], from: base.header.id }) };
    });
    const results = await Promise.allSettled(rivals.map(({ commit }) => storage.commit(commit)));
    const losers = results.filter((result) => result.status === 'rejected');
    assert.equal(losers.length, 19);
    assert.ok(losers.every(({ reason }) => hasErrorCode(reason, 'CONFLICT')));
    const [winner] = rivals.filter((_, n) => results[n]?.status === 'fulfilled').map(({ checkpoint }) => checkpoint);
    const [ref] = await storage.readRefs();
    assert.ok(winner !== undefined && ref?.target === winner.header.id);
    await finds({}, [base, winner]);
    assertSame(await listDigests(storage), winner.root.refs);
  }),

  rule('[storage.17] a refused commit does not hurt those that are under way beside it', async (context) => {
    const { storage, make, finds } = context;
    const made = Array.from({ length: 40 }, (_, n) => make.checkpoint({ sessionId: `s-${n}` }));
    const isGood = (_: unknown, n: number): boolean => n % 2 === 0;
    const commits = made.map((item, n) => commitOf(item, isGood(item, n) ? {} : { requires: [make.id()] }));
    const results = await Promise.allSettled(commits.map((commit) => storage.commit(commit)));
    for (const [n, result] of results.entries()) assert.equal(result.status === 'fulfilled', isGood(result, n));
    await finds({}, made.filter(isGood));
  }),

  rule('[storage.18] a closed storage is CLOSED to every call but close', async ({ storage, make }) => {
    await storage.commit(commitOf(make.checkpoint()));
    await Promise.all([storage.close(), storage.close()]);
    await storage.close();
    for (const call of CALLS) {
      const late = Promise.resolve().then(() => call(storage, make));
      await assertRejects(late, 'CLOSED');
    }
  }),

  rule('[storage.18] closing waits for the commits under way', async (context) => {
    let stored = 0;
    const commits = commitApart(context, 20).map((commit) => commit.then(() => stored++));
    await context.storage.close();
    // One turn, in which what was settled before closing can be heard of, and nothing can be read or written.
    await new Promise(setImmediate);
    assert.equal(stored, 20);
    await Promise.all(commits);
  }),

  reopenRule('[storage.18] commits under way at closing are there again', async (context) => {
    const commits = commitApart(context, 20);
    const again = await context.reopen(context.storage);
    for (const item of await Promise.all(commits))
      assertSame(await again.readCheckpoint(item.header.id), rowWithRootOf(item));
  }),

  reopenRule('[storage.18] everything is there after opening again', async (context) => {
    const { storage, reopen } = context;
    await populate(context);
    const [before, { bytes: _, ...counts }] = [await readAll(storage), await storage.stats()];
    const again = await reopen(storage);
    assertSame(await readAll(again), before);
    const { bytes: __, ...countsAgain } = await again.stats();
    assertSame(countsAgain, counts);
    assertSame(await again.checkIntegrity(), []);
    assertSame(await readAll(await reopen(again)), before);
  }),

  reopenRule('[storage.18] keys, expectations and filters hold', async (context) => {
    const { storage, make, reopen } = context;
    await populate(context);
    const again = await reopen(storage);
    const [head] = await again.readRefs({ sessionId: 's-1', kind: 'branch' });
    const repeated = make.checkpoint({ sessionId: 's-1', idempotencyKey: 'once' });
    assertSame(await again.commit(commitOf(repeated)), { status: 'duplicate', id: head?.target });
    const stale = make.checkpoint({ sessionId: 's-1' });
    await assertRejects(again.commit(commitOf(stale, { from: null })), 'CONFLICT');
    assertSame(await again.commit(commitOf(stale, { from: head?.target ?? '' })), { status: 'stored' });
    assertSame((await again.listCheckpoints(everything({ userId: 'u', include: 'all' }))).length, 0);
    const found = await again.listCheckpoints(everything({ sessionId: 's-1', branch: 'main', include: 'all' }));
    assert.equal(found.length, 3);
  }),

  reopenRule('[storage.18] what was deleted and collected stays away', async (context) => {
    const { storage, reopen } = context;
    await populate(context);
    for (const sessionId of await storage.listSessions({ limit: ALL }))
      if (sessionId !== 's-2') await storage.deleteSession(sessionId);
    await storage.collect();
    const before = await readAll(storage);
    const again = await reopen(storage);
    assertSame(await readAll(again), before);
    assert.equal((await again.collect()).chunks, 0);
    assertSame(await readAll(again), before);
  }),

  rule('[storage.19] stats count what is there, and bytes grow', async ({ storage, make, save, forget }) => {
    const { bytes: emptyBytes, ...empty } = await storage.stats();
    assertSame(empty, { checkpoints: 0, tombstones: 0, chunks: 0, sessions: 0 });
    const chunk = make.chunk([], JSON.stringify(Array.from({ length: 30_000 }, () => make.random.below(1_000_000))));
    await save({ root: contentOf(chunk) }, { chunks: [chunk] });
    await forget(await save({ sessionId: 's-2' }));
    const { bytes, ...counts } = await storage.stats();
    assertSame(counts, { checkpoints: 1, tombstones: 1, chunks: 1, sessions: 2 });
    assert.ok(bytes > emptyBytes);
  }),

  rule('[storage.19] a healthy storage finds nothing damaged', async (context) => {
    const { storage } = context;
    assertSame(await storage.checkIntegrity(), []);
    await populate(context);
    assertSame(await storage.checkIntegrity(), []);
    await storage.deleteSession(session('s-1'));
    await storage.collect();
    assertSame(await storage.checkIntegrity(), []);
  }),

  rule('[storage.1] changing what was passed in changes nothing inside', async ({ storage, make, finds }) => {
    const chunk = make.chunk();
    const node = make.chunk([chunk.digest], '[{"$":0}]');
    const said = { userId: 'u', metadata: { k: { deep: 1 } }, idempotencyKey: 'once' };
    const checkpoint = make.checkpoint({ ...said, root: contentOf(node) });
    const effects = [make.effect({ ordinal: 0, result: contentOf(chunk) })];
    const commit = commitOf(checkpoint, { chunks: [chunk, node], effects, from: null });
    await storage.commit(commit);
    const before = await readAll(storage);
    const same = structuredClone(checkpoint);
    scribble(commit);
    assertSame(await readAll(storage), before);
    await finds({ userId: 'u', metadata: { k: { deep: 1 } } }, [same]);
    assert.equal((await storage.collect()).chunks, 0);
  }),

  rule('[storage.1] changing what was returned changes nothing inside', async (context) => {
    const { storage } = context;
    await populate(context);
    const before = await readAll(storage);
    const rows = await storage.listCheckpoints(everything({ include: 'all' }));
    const digests = await listDigests(storage);
    const wholes = await Promise.all(rows.map((row) => storage.readCheckpoint(row.id)));
    const others = [await storage.readRefs(), await storage.readEffects({ sessionId: 's-1' })];
    const more = [await storage.readChunks(digests), await storage.listSessions({ limit: ALL })];
    scribble([rows, wholes, others, more, digests]);
    assertSame(await readAll(storage), before);
    assert.equal((await storage.collect()).chunks, 0);
  }),
];
