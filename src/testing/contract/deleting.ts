import assert from 'node:assert/strict';
import type { CheckpointId } from '../../core/record/id.ts';
import { contentOf, deletionOf, session, tombstoneRowOf } from './builders.ts';
import { assertNoTrace, assertSame, everything, readAll, rule } from './contract-test.ts';
import { HOSTILE_NAMES, HOSTILE_TEXTS } from './hostile-text.ts';

const HOLDERS = ['branch', 'tag', 'pin'] as const;

export const deletingRules = [
  rule('[storage.13] a deleted checkpoint leaves its tombstone and no root', async (context) => {
    const { storage, save, forget, holds } = context;
    const a = await save({ note: 'secret' });
    const b = await save({ parent: a }, { requires: [a.header.id] });
    assertSame(await forget(a), [a.header.id]);
    const row = await storage.readCheckpoint(a.header.id);
    assertSame(row, tombstoneRowOf(a));
    assert.equal(row?.root, undefined);
    await holds(b);
  }),

  rule('[storage.13] a tombstone stands for others, if it is the expected one', async (context) => {
    const { storage, make, store, forget, holds } = context;
    const [a, b, c, live] = await store([{}, {}, {}, {}]);
    await forget(a, b, c);
    const expect = tombstoneRowOf(c).body;
    const body = expect.replace('"deletedAtMs"', '"folded":1,"deletedAtMs"');
    const removes = [a, b, live, make.checkpoint()].map(({ header }) => header.id);
    const stale = { id: c.header.id, expect: `${expect} `, body, removes };
    if (storage.foldTombstones === undefined) return;
    assertSame(await storage.foldTombstones([stale, { ...stale, id: live.header.id }]), []);
    assertSame(await storage.foldTombstones([{ ...stale, expect }]), [a.header.id, b.header.id]);
    assertSame(await storage.readCheckpoint(a.header.id), undefined);
    assertSame(await storage.readCheckpoint(c.header.id), { ...tombstoneRowOf(c), body });
    await holds(live);
    assertSame(await storage.checkIntegrity(), []);
    assertSame(await storage.foldTombstones([]), []);
  }),

  rule('[storage.14] branches, tags and pins protect what they point at', async (context) => {
    const { storage, store, forget, holds } = context;
    for (const kind of HOLDERS) {
      const [held, free] = await store([{}, {}]);
      const [{ id, sessionId }, name] = [held.header, 'holds'];
      await storage.commit({ sessionId, refs: [{ kind, name, target: id }] });
      assertSame(await forget(held, free), [free.header.id], kind);
      await holds(held);
      assert.equal((await storage.readRefs({ kind })).length, 1);
      await storage.commit({ sessionId, refs: [{ kind, name, target: null }] });
      assertSame(await forget(held), [id], kind);
    }
  }),

  rule('[storage.14] a mark protects nothing', async ({ storage, make, save, forget }) => {
    const id = make.id();
    const a = await save({ id }, { refs: [{ kind: 'mark', name: 'seen', target: id }] });
    assertSame(await forget(a), [id]);
    assertSame(await storage.readCheckpoint(id), tombstoneRowOf(a));
  }),

  rule('[storage.14] `force` deletes what is protected, and the refs that held it', async ({ storage, make, save }) => {
    const [target, other] = [make.id(), make.id()];
    const a = await save({ id: target }, { refs: HOLDERS.map((kind) => ({ kind, name: 'holds', target })) });
    await save({ id: other }, { refs: [{ kind: 'branch', name: 'other', target: other }] });
    assertSame(await storage.deleteCheckpoints([deletionOf(a)], { force: false }), []);
    assertSame(await storage.deleteCheckpoints([deletionOf(a)], { force: true }), [target]);
    const refs = (await storage.readRefs()).map(({ kind, name }) => [kind, name]);
    assertSame(refs, [['branch', 'other']]);
  }),

  rule('[storage.13] the result names what was deleted now, and nothing else', async (context) => {
    const { storage, make, store, forget } = context;
    const [a, b] = await store([{}, {}]);
    const unknown = make.checkpoint();
    assertSame(await forget(), []);
    assertSame(await forget(unknown, a, a), [a.header.id]);
    const before = await readAll(storage);
    const near = [a.header.id, b.header.id.slice(0, -1), b.header.id.toUpperCase(), ...HOSTILE_TEXTS] as CheckpointId[];
    for (const ids of [near.slice(0, 1), near]) {
      const { body } = deletionOf(unknown);
      const deletions = ids.map((id) => ({ id, body }));
      assertSame(await storage.deleteCheckpoints(deletions, { force: true }), []);
      assertSame(await readAll(storage), before);
    }
  }),

  rule('[storage.13] a thousand checkpoints can be deleted at once', async ({ storage, store, forget }) => {
    const checkpoints = await store(Array.from({ length: 1_000 }, () => ({})));
    const deleted = await forget(...checkpoints);
    assertSame(deleted.toSorted(), checkpoints.map(({ header }) => header.id).sort());
    assertSame(await storage.listCheckpoints(everything()), []);
    assert.equal((await storage.stats()).tombstones, 1_000);
  }),

  rule('[storage.15] a deleted session leaves nothing', async ({ storage, make, save, forget, leaves }) => {
    const [chunk, resultChunk] = [make.chunk(), make.chunk()];
    const a = await save();
    const b = await save({}, { from: null });
    const effects = [make.effect({ ordinal: 0, result: contentOf(resultChunk) })];
    const refs = [{ kind: 'lease', name: 'l', target: 'x' } as const];
    const c = await save({ root: contentOf(chunk) }, { chunks: [chunk, resultChunk], effects, refs });
    await forget(a);
    assert.equal(await storage.deleteSession(session('s-1')), true);
    await assertNoTrace(storage, session('s-1'));
    for (const { header } of [a, b, c]) assert.equal(await storage.readCheckpoint(header.id), undefined);
    await leaves();
    const { bytes: _, ...counts } = await storage.stats();
    assertSame(counts, { checkpoints: 0, tombstones: 0, chunks: 0, sessions: 0 });
  }),

  rule('[storage.15] deleting a session says whether it was there', async ({ storage, save, forget }) => {
    assert.equal(await storage.deleteSession(session('s-1')), false);
    await forget(await save());
    assert.equal(await storage.deleteSession(session('s-1')), true);
    assert.equal(await storage.deleteSession(session('s-1')), false);
  }),

  rule('[storage.15] with `ifRefs` a session goes only if its refs are just these', async ({ storage, save }) => {
    const a = await save({}, { from: null });
    const before = await storage.readRefs({ sessionId: 's-1' });
    await save({}, { from: a.header.id });
    const now = await storage.readRefs({ sessionId: 's-1' });
    for (const ifRefs of [before, [], [...now, ...before]])
      assert.equal(await storage.deleteSession(session('s-1'), { ifRefs }), false);
    assert.equal((await storage.listCheckpoints(everything())).length, 2);
    assert.equal(await storage.deleteSession(session('s-1'), { ifRefs: now }), true);
    await assertNoTrace(storage, session('s-1'));
  }),

  rule('[storage.15] a session can be used again after it was deleted', async ({ storage, save }) => {
    await save({}, { from: null });
    await storage.deleteSession(session('s-1'));
    await save({}, { from: null });
    assert.equal((await storage.listCheckpoints(everything({ include: 'all' }))).length, 1);
  }),

  rule('[storage.15] deleting touches no other session, however alike the names', async ({ storage, make, save }) => {
    const names = [...HOSTILE_NAMES, 'a-1', 'a-10', 'a-1%', 'A-1'];
    const shared = make.chunk();
    for (const sessionId of names) {
      const effects = [make.effect({ sessionId, ordinal: 0 })];
      await save({ sessionId, root: contentOf(shared) }, { chunks: [shared], effects, from: null });
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

  rule('[storage.15] deleting an ancestor leaves what was built on it', async ({ storage, make, save, holds }) => {
    const shared = make.chunk();
    const root = contentOf(shared);
    const a = await save({ sessionId: 's-1', root }, { chunks: [shared] });
    const fork = await save({ sessionId: 's-2', parent: a, root }, { requires: [a.header.id] });
    await storage.deleteSession(session('s-1'));
    await storage.collect();
    await holds(fork);
    assertSame(await storage.readChunks([shared.digest]), [shared]);
  }),
];
