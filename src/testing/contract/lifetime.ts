import assert from 'node:assert/strict';
import { hasErrorCode } from '../../core/errors.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import { type Builders, commitOf, contentOf, deletionOf, moveBranch, rowWithRootOf, session } from './builders.ts';
import { ALL, assertRejects, assertSame, everything, listDigests, readAll, reopenRule, rule } from './contract-test.ts';
import { HOSTILE_NAMES } from './hostile-text.ts';

/** Fills a storage with some of everything: rows, refs, effects, chunks, tombstones, keys. */
async function populate(storage: ChunkStorage, make: Builders): Promise<void> {
  for (const sessionId of ['s-1', 's-2', ...HOSTILE_NAMES.slice(0, 12)]) {
    const [chunk, resultChunk] = [make.chunk(), make.chunk()];
    const a = make.checkpoint({ sessionId, userId: 'u', metadata: { k: [1, { a: 'é😀' }] }, root: contentOf(chunk) });
    const b = make.checkpoint({ sessionId, parent: a, root: contentOf(chunk, resultChunk), idempotencyKey: 'once' });
    const effects = [
      make.effect({ sessionId, ordinal: 0, result: contentOf(resultChunk) }),
      make.effect({ sessionId, ordinal: 1 }),
    ];
    await storage.commit(commitOf(a, { chunks: [chunk], refs: [moveBranch('main', a, null)] }));
    await storage.commit(
      commitOf(b, {
        chunks: [resultChunk],
        effects,
        refs: [moveBranch('main', b, a.header.id)],
        requires: [a.header.id],
      }),
    );
    await storage.deleteCheckpoints([deletionOf(a)]);
  }
  const sessionId = session('s-1');
  const refs = [{ kind: 'mark', name: 'soft', target: 'x' } as const];
  await storage.commit({ sessionId, refs, durability: 'relaxed' });
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

export const lifetimeRules = [
  rule('[storage.17] a hundred commits at once on a hundred sessions are all stored', async ({ storage, make }) => {
    const shared = make.chunk();
    const checkpoints = Array.from({ length: 100 }, (_, n) =>
      make.checkpoint({ sessionId: `s-${n}`, root: contentOf(shared) }),
    );
    const commits = checkpoints.map((item) =>
      commitOf(item, { chunks: [shared], refs: [moveBranch('main', item, null)] }),
    );
    const results = await Promise.all(commits.map((commit) => storage.commit(commit)));
    assert.ok(results.every((result) => result.status === 'stored'));
    for (const item of checkpoints) assertSame(await storage.readCheckpoint(item.header.id), rowWithRootOf(item));
    assert.equal((await storage.readRefs({ kind: 'branch' })).length, 100);
    assertSame(await listDigests(storage), [shared.digest]);
  }),

  rule('[storage.17] of twenty commits at once on one branch, one leaves a trace', async ({ storage, make }) => {
    const base = make.checkpoint();
    await storage.commit(commitOf(base, { refs: [moveBranch('main', base)] }));
    const rivals = Array.from({ length: 20 }, () => {
      const chunk = make.chunk();
      const checkpoint = make.checkpoint({ parent: base, root: contentOf(chunk) });
      return commitOf(checkpoint, { chunks: [chunk], refs: [moveBranch('main', checkpoint, base.header.id)] });
    });
    const results = await Promise.allSettled(rivals.map((rival) => storage.commit(rival)));
    const losers = results.filter((result) => result.status === 'rejected');
    assert.equal(losers.length, 19);
    assert.ok(losers.every(({ reason }) => hasErrorCode(reason, 'CONFLICT')));
    const winner = rivals[results.findIndex((result) => result.status === 'fulfilled')]?.checkpoint;
    const [ref] = await storage.readRefs();
    assert.equal(ref?.target, winner?.header.id);
    assertSame(
      (await storage.listCheckpoints(everything())).map((row) => row.id),
      [base.header.id, winner?.header.id],
    );
    assertSame(await listDigests(storage), winner?.root.refs);
  }),

  rule('[storage.17] a refused commit does not hurt those that are under way beside it', async ({ storage, make }) => {
    const commits = Array.from({ length: 40 }, (_, n): Commit => {
      const checkpoint = make.checkpoint({ sessionId: `s-${n}` });
      return commitOf(checkpoint, n % 2 === 0 ? {} : { requires: [make.id()] });
    });
    const results = await Promise.allSettled(commits.map((commit) => storage.commit(commit)));
    for (const [n, result] of results.entries()) assert.equal(result.status, n % 2 === 0 ? 'fulfilled' : 'rejected');
    const rows = await storage.listCheckpoints(everything());
    const wanted = commits.filter((_, n) => n % 2 === 0).map((commit) => commit.checkpoint?.header.id);
    assertSame(
      rows.map((row) => row.id),
      wanted,
    );
  }),

  rule('[storage.18] a closed storage is CLOSED to every call but close', async ({ storage, make }) => {
    await storage.commit(commitOf(make.checkpoint()));
    await Promise.all([storage.close(), storage.close()]);
    await storage.close();
    for (const call of CALLS)
      await assertRejects(
        Promise.resolve().then(() => call(storage, make)),
        'CLOSED',
      );
  }),

  rule('[storage.18] closing waits for the commits under way', async ({ storage, make }) => {
    let stored = 0;
    const commits = Array.from({ length: 20 }, async (_, n) => {
      const result = await storage.commit(commitOf(make.checkpoint({ sessionId: `s-${n}` })));
      if (result.status === 'stored') stored++;
    });
    await storage.close();
    // One turn, in which what was settled before closing can be heard of, and nothing can be read or written.
    await new Promise(setImmediate);
    assert.equal(stored, 20);
    await Promise.all(commits);
  }),

  reopenRule('[storage.18] commits under way at closing are there again', async ({ storage, make, reopen }) => {
    const checkpoints = Array.from({ length: 20 }, (_, n) => make.checkpoint({ sessionId: `s-${n}` }));
    const commits = checkpoints.map((checkpoint) => storage.commit(commitOf(checkpoint)));
    const again = await reopen(storage);
    await Promise.all(commits);
    for (const item of checkpoints) assertSame(await again.readCheckpoint(item.header.id), rowWithRootOf(item));
  }),

  reopenRule('[storage.18] everything is there after opening again', async ({ storage, make, reopen }) => {
    await populate(storage, make);
    const [before, { bytes: _, ...counts }] = [await readAll(storage), await storage.stats()];
    const again = await reopen(storage);
    assertSame(await readAll(again), before);
    const { bytes: __, ...countsAgain } = await again.stats();
    assertSame(countsAgain, counts);
    assertSame(await again.checkIntegrity(), []);
    assertSame(await readAll(await reopen(again)), before);
  }),

  reopenRule('[storage.18] keys, expectations and filters hold', async ({ storage, make, reopen }) => {
    await populate(storage, make);
    const again = await reopen(storage);
    const [head] = await again.readRefs({ sessionId: 's-1', kind: 'branch' });
    const repeated = make.checkpoint({ sessionId: 's-1', idempotencyKey: 'once' });
    assertSame(await again.commit(commitOf(repeated)), { status: 'duplicate', id: head?.target });
    const stale = make.checkpoint({ sessionId: 's-1' });
    await assertRejects(again.commit(commitOf(stale, { refs: [moveBranch('main', stale, null)] })), 'CONFLICT');
    assertSame(await again.commit(commitOf(stale, { refs: [moveBranch('main', stale, head?.target ?? '')] })), {
      status: 'stored',
    });
    assertSame((await again.listCheckpoints(everything({ userId: 'u', include: 'all' }))).length, 0);
    const found = await again.listCheckpoints(everything({ sessionId: 's-1', branch: 'main', include: 'all' }));
    assert.equal(found.length, 3);
  }),

  reopenRule('[storage.18] what was deleted and collected stays away', async ({ storage, make, reopen }) => {
    await populate(storage, make);
    for (const sessionId of await storage.listSessions({ limit: ALL })) {
      if (sessionId !== 's-2') await storage.deleteSession(sessionId);
    }
    await storage.collect();
    const before = await readAll(storage);
    const again = await reopen(storage);
    assertSame(await readAll(again), before);
    assert.equal((await again.collect()).chunks, 0);
    assertSame(await readAll(again), before);
  }),

  rule('[storage.19] stats count what is there, and bytes grow', async ({ storage, make }) => {
    const { bytes: emptyBytes, ...empty } = await storage.stats();
    assertSame(empty, { checkpoints: 0, tombstones: 0, chunks: 0, sessions: 0 });
    const chunk = make.chunk([], JSON.stringify(Array.from({ length: 30_000 }, () => make.random.below(1_000_000))));
    const [a, b] = [make.checkpoint({ root: contentOf(chunk) }), make.checkpoint({ sessionId: 's-2' })];
    await storage.commit(commitOf(a, { chunks: [chunk] }));
    await storage.commit(commitOf(b));
    await storage.deleteCheckpoints([deletionOf(b)]);
    const { bytes, ...counts } = await storage.stats();
    assertSame(counts, { checkpoints: 1, tombstones: 1, chunks: 1, sessions: 2 });
    assert.ok(bytes > emptyBytes);
  }),

  rule('[storage.19] a healthy storage finds nothing damaged', async ({ storage, make }) => {
    assertSame(await storage.checkIntegrity(), []);
    await populate(storage, make);
    assertSame(await storage.checkIntegrity(), []);
    await storage.deleteSession(session('s-1'));
    await storage.collect();
    assertSame(await storage.checkIntegrity(), []);
  }),

  rule('[storage.1] changing what was passed in changes nothing inside', async ({ storage, make }) => {
    const chunk = make.chunk();
    const node = make.chunk([chunk.digest], '[{"$":0}]');
    const checkpoint = make.checkpoint({
      userId: 'u',
      metadata: { k: { deep: 1 } },
      idempotencyKey: 'once',
      root: contentOf(node),
    });
    const effects = [make.effect({ ordinal: 0, result: contentOf(chunk) })];
    const commit = commitOf(checkpoint, { chunks: [chunk, node], effects, refs: [moveBranch('main', checkpoint)] });
    await storage.commit(commit);
    const before = await readAll(storage);
    const { id } = checkpoint.header;
    scribble(commit);
    assertSame(await readAll(storage), before);
    const found = await storage.listCheckpoints(everything({ userId: 'u', metadata: { k: { deep: 1 } } }));
    assertSame(
      found.map((row) => row.id),
      [id],
    );
    assert.equal((await storage.collect()).chunks, 0);
  }),

  rule('[storage.1] changing what was returned changes nothing inside', async ({ storage, make }) => {
    await populate(storage, make);
    const before = await readAll(storage);
    const rows = await storage.listCheckpoints(everything({ include: 'all' }));
    const digests = await listDigests(storage);
    const wholes = await Promise.all(rows.map((row) => storage.readCheckpoint(row.id)));
    const others = [await storage.readRefs(), await storage.readEffects({ sessionId: 's-1' })];
    scribble([
      rows,
      wholes,
      others,
      await storage.readChunks(digests),
      await storage.listSessions({ limit: ALL }),
      digests,
    ]);
    assertSame(await readAll(storage), before);
    assert.equal((await storage.collect()).chunks, 0);
  }),
];
