import assert from 'node:assert/strict';
import type { CheckpointId } from '../../core/record/id.ts';
import { commitOf, contentOf, deletionOf, moveBranch, rowWithRootOf, session, tombstoneRowOf } from './builders.ts';
import { assertNoTrace, assertSame, everything, listDigests, readAll, rule } from './contract-test.ts';
import { HOSTILE_NAMES, HOSTILE_TEXTS } from './hostile-text.ts';

export const deletingRules = [
  rule('[storage.13] a deleted checkpoint leaves its tombstone and no root', async ({ storage, make }) => {
    const a = make.checkpoint({ note: 'secret' });
    const b = make.checkpoint({ parent: a });
    await storage.commit(commitOf(a));
    await storage.commit(commitOf(b, { requires: [a.header.id] }));
    assertSame(await storage.deleteCheckpoints([deletionOf(a)]), [a.header.id]);
    const row = await storage.readCheckpoint(a.header.id);
    assertSame(row, tombstoneRowOf(a));
    assert.equal(row?.root, undefined);
    assertSame(await storage.readCheckpoint(b.header.id), rowWithRootOf(b));
  }),

  rule('[storage.13] a tombstone stands for others, if it is the expected one', async ({ storage, make, store }) => {
    const [a, b, c, live] = await store([{}, {}, {}, {}]);
    await storage.deleteCheckpoints([a, b, c].map(deletionOf));
    const expect = tombstoneRowOf(c).body;
    const body = expect.replace('"deletedAtMs"', '"folded":1,"deletedAtMs"');
    const removes = [a, b, live, make.checkpoint()].map(({ header }) => header.id);
    const stale = { id: c.header.id, expect: `${expect} `, body, removes };
    if (storage.foldTombstones === undefined) return;
    assertSame(await storage.foldTombstones([stale, { ...stale, id: live.header.id }]), []);
    assertSame(await storage.foldTombstones([{ ...stale, expect }]), [a.header.id, b.header.id]);
    assertSame(await storage.readCheckpoint(a.header.id), undefined);
    assertSame(await storage.readCheckpoint(c.header.id), { ...tombstoneRowOf(c), body });
    assertSame(await storage.readCheckpoint(live.header.id), rowWithRootOf(live));
    assertSame(await storage.checkIntegrity(), []);
    assertSame(await storage.foldTombstones([]), []);
  }),

  rule('[storage.14] branches, tags and pins protect what they point at', async ({ storage, make }) => {
    for (const kind of ['branch', 'tag', 'pin'] as const) {
      const [held, free] = [make.checkpoint(), make.checkpoint()];
      await storage.commit(commitOf(held, { refs: [{ kind, name: 'holds', target: held.header.id }] }));
      await storage.commit(commitOf(free));
      assertSame(await storage.deleteCheckpoints([deletionOf(held), deletionOf(free)]), [free.header.id], kind);
      assertSame(await storage.readCheckpoint(held.header.id), rowWithRootOf(held));
      assert.equal((await storage.readRefs({ kind })).length, 1);
      const refs = [{ kind, name: 'holds', target: null }];
      await storage.commit({ sessionId: held.header.sessionId, refs });
      assertSame(await storage.deleteCheckpoints([deletionOf(held)]), [held.header.id], kind);
    }
  }),

  rule('[storage.14] a mark protects nothing', async ({ storage, make }) => {
    const a = make.checkpoint();
    await storage.commit(commitOf(a, { refs: [{ kind: 'mark', name: 'seen', target: a.header.id }] }));
    assertSame(await storage.deleteCheckpoints([deletionOf(a)]), [a.header.id]);
    assertSame(await storage.readCheckpoint(a.header.id), tombstoneRowOf(a));
  }),

  rule('[storage.14] `force` deletes what is protected, and the refs that held it', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    const target = a.header.id;
    const holders = (['branch', 'tag', 'pin'] as const).map((kind) => ({ kind, name: 'holds', target }));
    await storage.commit(commitOf(a, { refs: holders }));
    await storage.commit(commitOf(b, { refs: [moveBranch('other', b)] }));
    assertSame(await storage.deleteCheckpoints([deletionOf(a)], { force: false }), []);
    assertSame(await storage.deleteCheckpoints([deletionOf(a)], { force: true }), [a.header.id]);
    const refs = await storage.readRefs();
    assertSame(
      refs.map(({ kind, name }) => [kind, name]),
      [['branch', 'other']],
    );
  }),

  rule('[storage.13] the result names what was deleted now, and nothing else', async ({ storage, make, store }) => {
    const [a, b] = await store([{}, {}]);
    const unknown = deletionOf(make.checkpoint());
    assertSame(await storage.deleteCheckpoints([]), []);
    assertSame(await storage.deleteCheckpoints([unknown, deletionOf(a), deletionOf(a)]), [a.header.id]);
    const before = await readAll(storage);
    const other = { id: a.header.id, body: unknown.body };
    assertSame(await storage.deleteCheckpoints([other], { force: true }), []);
    assertSame(await readAll(storage), before);
    const near = [b.header.id.slice(0, -1), b.header.id.toUpperCase(), ...HOSTILE_TEXTS] as CheckpointId[];
    assertSame(
      await storage.deleteCheckpoints(
        near.map((id) => ({ id, body: other.body })),
        { force: true },
      ),
      [],
    );
    assertSame(await readAll(storage), before);
  }),

  rule('[storage.13] a thousand checkpoints can be deleted at once', async ({ storage, make }) => {
    const checkpoints = Array.from({ length: 1_000 }, () => make.checkpoint());
    await Promise.all(checkpoints.map((checkpoint) => storage.commit(commitOf(checkpoint))));
    const deleted = await storage.deleteCheckpoints(checkpoints.map(deletionOf));
    assertSame(deleted.toSorted(), checkpoints.map(({ header }) => header.id).sort());
    assertSame(await storage.listCheckpoints(everything()), []);
    assert.equal((await storage.stats()).tombstones, 1_000);
  }),

  rule('[storage.15] a deleted session leaves nothing', async ({ storage, make }) => {
    const [a, b, chunk, resultChunk] = [make.checkpoint(), make.checkpoint(), make.chunk(), make.chunk()];
    const c = make.checkpoint({ root: contentOf(chunk) });
    await storage.commit(commitOf(a));
    await storage.commit(commitOf(b, { refs: [moveBranch('main', b)] }));
    const effects = [make.effect({ ordinal: 0, result: contentOf(resultChunk) })];
    await storage.commit(
      commitOf(c, { chunks: [chunk, resultChunk], effects, refs: [{ kind: 'lease', name: 'l', target: 'x' }] }),
    );
    await storage.deleteCheckpoints([deletionOf(a)]);
    assert.equal(await storage.deleteSession(session('s-1')), true);
    await assertNoTrace(storage, session('s-1'));
    for (const { header } of [a, b, c]) assert.equal(await storage.readCheckpoint(header.id), undefined);
    await storage.collect();
    assertSame(await listDigests(storage), []);
    const { bytes: _, ...counts } = await storage.stats();
    assertSame(counts, { checkpoints: 0, tombstones: 0, chunks: 0, sessions: 0 });
  }),

  rule('[storage.15] deleting a session says whether it was there', async ({ storage, store }) => {
    assert.equal(await storage.deleteSession(session('s-1')), false);
    const [a] = await store([{}]);
    await storage.deleteCheckpoints([deletionOf(a)]);
    assert.equal(await storage.deleteSession(session('s-1')), true);
    assert.equal(await storage.deleteSession(session('s-1')), false);
  }),

  rule('[storage.15] with `ifRefs` a session goes only if its refs are just these', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    await storage.commit(commitOf(a, { refs: [moveBranch('main', a, null)] }));
    const before = await storage.readRefs({ sessionId: 's-1' });
    await storage.commit(commitOf(b, { refs: [moveBranch('main', b, a.header.id)] }));
    const now = await storage.readRefs({ sessionId: 's-1' });
    for (const ifRefs of [before, [], [...now, ...before]])
      assert.equal(await storage.deleteSession(session('s-1'), { ifRefs }), false);
    assert.equal((await storage.listCheckpoints(everything())).length, 2);
    assert.equal(await storage.deleteSession(session('s-1'), { ifRefs: now }), true);
    await assertNoTrace(storage, session('s-1'));
  }),

  rule('[storage.15] a session can be used again after it was deleted', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    await storage.commit(commitOf(a, { refs: [moveBranch('main', a, null)] }));
    await storage.deleteSession(session('s-1'));
    await storage.commit(commitOf(b, { refs: [moveBranch('main', b, null)] }));
    assert.equal((await storage.listCheckpoints(everything({ include: 'all' }))).length, 1);
  }),

  rule('[storage.15] deleting touches no other session, however alike the names', async ({ storage, make }) => {
    const names = [...HOSTILE_NAMES, 'a-1', 'a-10', 'a-1%', 'A-1'];
    const shared = make.chunk();
    for (const sessionId of names) {
      const checkpoint = make.checkpoint({ sessionId, root: contentOf(shared) });
      const effects = [make.effect({ sessionId, ordinal: 0 })];
      await storage.commit(commitOf(checkpoint, { chunks: [shared], effects, refs: [moveBranch('main', checkpoint)] }));
    }
    let left = names.length;
    for (const sessionId of names.toSorted(() => make.random.below(3) - 1)) {
      assert.equal(await storage.deleteSession(session(sessionId)), true, sessionId);
      left--;
      await assertNoTrace(storage, session(sessionId));
      if (left % 8 !== 0) continue; // what should not be deleted stays missing
      assert.equal((await storage.listCheckpoints(everything())).length, left, sessionId);
      assert.equal((await storage.readRefs()).length, left, sessionId);
    }
  }),

  rule('[storage.15] deleting an ancestor leaves what was built on it', async ({ storage, make }) => {
    const shared = make.chunk();
    const a = make.checkpoint({ sessionId: 's-1', root: contentOf(shared) });
    const fork = make.checkpoint({ sessionId: 's-2', parent: a, root: contentOf(shared) });
    await storage.commit(commitOf(a, { chunks: [shared] }));
    await storage.commit(commitOf(fork, { requires: [a.header.id] }));
    await storage.deleteSession(session('s-1'));
    await storage.collect();
    assertSame(await storage.readCheckpoint(fork.header.id), rowWithRootOf(fork));
    assertSame(await storage.readChunks([shared.digest]), [shared]);
  }),
];
