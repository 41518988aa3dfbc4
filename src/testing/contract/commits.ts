import assert from 'node:assert/strict';
import type { Commit, RefChange } from '../../storage/contract.ts';
import { type Builders, type CheckpointParts, commitOf, contentOf, moveBranch, session } from './builders.ts';
import { assertNoTrace, assertSame, listDigests, readAll, rule } from './contract-test.ts';

const ABSENT = 'chk_0000000000000000000000';

/** A commit that brings one of everything. Its idempotency key is `once`, unless another is given. */
function fullCommit(make: Builders, parts: CheckpointParts = {}, rest: Partial<Commit> = {}) {
  const [chunk, resultChunk] = [make.chunk(), make.chunk()];
  const checkpoint = make.checkpoint({ root: contentOf(chunk), idempotencyKey: 'once', ...parts });
  const { sessionId } = checkpoint.header;
  const effects = [make.effect({ sessionId, ordinal: 0, result: contentOf(resultChunk) })];
  const refs = [moveBranch('main', checkpoint)];
  return { sessionId, checkpoint, chunks: [chunk, resultChunk], effects, refs, ...rest };
}

/** What a ref is at, what a commit expects and wants of it, and whether the commit is stored. */
const MOVES: readonly (Omit<RefChange, 'kind' | 'name'> & { at: string | null; isStored: boolean })[] = [
  { at: 'x', target: 'y', isStored: true },
  { at: 'x', expect: 'x', target: 'y', isStored: true },
  { at: 'x', expect: 'other', target: 'y', isStored: false },
  { at: 'x', expect: null, target: 'y', isStored: false },
  { at: 'x', expect: '', target: 'y', isStored: false },
  { at: 'x', target: null, isStored: true },
  { at: 'x', expect: 'x', target: null, isStored: true },
  { at: 'x', expect: 'other', target: null, isStored: false },
  { at: 'x', expect: null, target: null, isStored: false },
  { at: null, target: 'y', isStored: true },
  { at: null, expect: null, target: 'y', isStored: true },
  { at: null, expect: 'x', target: 'y', isStored: false },
  { at: null, expect: '', target: 'y', isStored: false },
  { at: null, target: null, isStored: true },
];

export const commitRules = [
  rule('[storage.1] a commit stores its chunks, row, effects and refs together', async (context) => {
    const { storage, make, accepts, holds } = context;
    const { checkpoint, ...commit } = fullCommit(make);
    await accepts({ ...commit, checkpoint });
    await holds(checkpoint);
    assertSame(await storage.readChunks(commit.chunks.map((chunk) => chunk.digest)), commit.chunks);
    assertSame(await storage.readEffects({ sessionId: 's-1' }), commit.effects);
    const refs = (await storage.readRefs()).map(({ kind, name, target }) => [kind, name, target]);
    assertSame(refs, [['branch', 'main', checkpoint.header.id]]);
  }),

  rule('[storage.1] a commit whose expectation fails leaves nothing', async ({ storage, make, refuses }) => {
    await storage.commit(fullCommit(make));
    const before = await readAll(storage);
    const refs: RefChange[] = [
      { kind: 'tag', name: 'good', expect: null, target: ABSENT },
      { kind: 'branch', name: 'main', expect: ABSENT, target: ABSENT },
      { kind: 'mark', name: 'also-good', target: ABSENT },
    ];
    const refused = fullCommit(make, { idempotencyKey: 'other' }, { refs });
    await refuses(refused);
    assertSame(await storage.readCheckpoint(refused.checkpoint.header.id), undefined);
    assertSame(await readAll(storage), before);
  }),

  rule('[storage.1] a refused first commit leaves no session and no used key', async (context) => {
    const { storage, make, accepts, refuses } = context;
    const refused = fullCommit(make, { sessionId: 's-2' }, { requires: [make.id()] });
    await refuses(refused);
    await assertNoTrace(storage, session('s-2'));
    assertSame(await listDigests(storage), []);
    await accepts({ ...refused, requires: [] });
  }),

  rule('[storage.2] a ref changes if it is where the commit expects it', async ({ storage, accepts, refuses }) => {
    const sessionId = session('s-1');
    for (const [n, { at, target, isStored, ...expected }] of MOVES.entries()) {
      const ref = { kind: 'branch', name: `b${n}` } as const;
      if (at !== null) await storage.commit({ sessionId, refs: [{ ...ref, target: at }] });
      await (isStored ? accepts : refuses)({ sessionId, refs: [{ ...ref, ...expected, target }] });
      const [found] = await storage.readRefs({ name: ref.name });
      assert.equal(found?.target ?? null, isStored ? target : at, JSON.stringify(MOVES[n]));
      // What was removed can be taken again.
      if (isStored && target === null)
        await storage.commit({ sessionId, refs: [{ ...ref, expect: null, target: 'x' }] });
    }
  }),

  rule('[storage.2] the same name of another session or kind is another ref', async ({ storage, save }) => {
    const a = await save({ sessionId: 's-1' }, { from: null });
    await save({ sessionId: 's-2' }, { from: null });
    const tag = { kind: 'tag', name: 'main', expect: null, target: a.header.id } as const;
    await storage.commit({ sessionId: session('s-1'), refs: [tag] });
    assert.equal((await storage.readRefs({ name: 'main' })).length, 3);
  }),

  rule('[storage.3] a CONFLICT says what was expected and what was found', async ({ make, save, refuses }) => {
    const a = await save({}, { from: null });
    const b = make.checkpoint();
    const place = { sessionId: 's-1', kind: 'branch', name: 'main' };
    await refuses(commitOf(b, { from: ABSENT }), { ...place, expected: ABSENT, found: a.header.id });
    await refuses(commitOf(b, { from: null }), { ...place, expected: null, found: a.header.id });
    const gone = { ...place, name: 'x', expected: ABSENT, found: null };
    await refuses(commitOf(b, { refs: [moveBranch('x', b, ABSENT)] }), gone);
  }),

  rule('[storage.3] a commit needs the checkpoints it requires, of any session', async (context) => {
    const { storage, make, save, accepts, refuses } = context;
    const { id } = (await save({ sessionId: 's-1' })).header;
    await accepts(commitOf(make.checkpoint({ sessionId: 's-2' }), { requires: [id] }));
    const [missing, c] = [make.id(), make.checkpoint()];
    await refuses(commitOf(c, { requires: [id, missing] }), { missing });
    assertSame(await storage.readCheckpoint(c.header.id), undefined);
  }),

  rule('[storage.3] a deleted checkpoint is not there to build on', async (context) => {
    const { storage, make, save, forget, refuses } = context;
    const a = await save();
    await forget(a);
    const b = make.checkpoint();
    await refuses(commitOf(b, { requires: [a.header.id] }), { missing: a.header.id });
    assertSame(await storage.readCheckpoint(b.header.id), undefined);
  }),

  rule('[storage.3] a checkpoint that was rewritten under its id is not there to build on', async (context) => {
    const { storage, make, save, accepts, refuses } = context;
    const a = make.checkpoint({ note: 'before' });
    const { id } = a.header;
    const after = await save({ id, note: 'after' }, { from: null });
    for (const name of ['main', 'own']) {
      const b = make.checkpoint({ parent: a });
      const refs = [moveBranch(name, b, name === 'main' ? id : null)];
      await refuses(commitOf(b, { requires: [id], refs }), { missing: id });
      assertSame(await storage.readCheckpoint(b.header.id), undefined);
    }
    await accepts(commitOf(make.checkpoint({ parent: after }), { requires: [id], from: id }));
  }),

  rule('[storage.4] a commit with a used key writes nothing and names the first', async ({ storage, make }) => {
    const first = fullCommit(make);
    await storage.commit(first);
    const before = await readAll(storage);
    assertSame(await storage.commit(fullCommit(make)), { status: 'duplicate', id: first.checkpoint.header.id });
    assertSame(await readAll(storage), before);
  }),

  rule('[storage.4] a used key comes before requirements and expectations', async ({ storage, make }) => {
    const first = fullCommit(make);
    await storage.commit(first);
    const refs = [{ kind: 'branch', name: 'main', expect: ABSENT, target: null } as const];
    const result = await storage.commit(fullCommit(make, {}, { requires: [make.id()], refs }));
    assertSame(result, { status: 'duplicate', id: first.checkpoint.header.id });
  }),

  rule('[storage.4] of commits with one key at the same time, one is stored', async ({ storage, make }) => {
    const commits = Array.from({ length: 10 }, () => fullCommit(make));
    const results = await Promise.all(commits.map((commit) => storage.commit(commit)));
    const rows = await storage.listCheckpoints({ limit: 20 });
    assert.equal(rows.length, 1);
    assert.equal(results.filter((result) => result.status === 'stored').length, 1);
    for (const result of results) if (result.status === 'duplicate') assert.equal(result.id, rows[0]?.id);
  }),

  rule('[storage.4] an idempotency key belongs to its session', async ({ make, accepts }) => {
    for (const sessionId of ['s-1', 's-10', 'S-1', 's']) await accepts(fullCommit(make, { sessionId }));
  }),

  rule('[storage.4] a key is free again when its checkpoint or its session is deleted', async (context) => {
    const { storage, make, save, forget, accepts } = context;
    const again = () => commitOf(make.checkpoint({ idempotencyKey: 'once' }));
    await forget(await save({ idempotencyKey: 'once' }));
    await accepts(again());
    await storage.deleteSession(session('s-1'));
    await accepts(again());
  }),

  rule('[storage.3] a stored checkpoint is never replaced, not even a deleted one', async (context) => {
    const { storage, make, store, forget, refuses } = context;
    const [a, b] = await store([{}, {}]);
    await forget(b);
    const before = await readAll(storage);
    for (const { header } of [a, b]) {
      const chunk = make.chunk();
      const again = make.checkpoint({ id: header.id, note: 'other', root: contentOf(chunk) });
      await refuses(commitOf(again, { chunks: [chunk], refs: [moveBranch('x', again)] }), { id: header.id });
    }
    assertSame(await readAll(storage), before);
  }),

  rule('[storage.3] a used id comes before requirements and expectations', async ({ make, save, refuses }) => {
    const { id } = (await save({}, { from: null })).header;
    const b = await save({}, { from: id });
    const again = make.checkpoint({ id, note: 'other' });
    await refuses(commitOf(again, { from: null }), { id });
    await refuses(commitOf(again, { from: ABSENT, requires: [b.header.id] }), { id });
    await refuses(commitOf(again, { requires: [make.id()] }), { id });
  }),

  rule('[storage.3] a missing requirement is refused before expectations are looked at', async ({ make, refuses }) => {
    const missing = make.id();
    await refuses(commitOf(make.checkpoint(), { requires: [missing], from: ABSENT }), { missing });
  }),

  rule('[storage.3] an empty commit and a relaxed commit are commits', async ({ make, accepts, holds }) => {
    await accepts({ sessionId: session('s-1') });
    const a = make.checkpoint();
    await accepts(commitOf(a, { durability: 'relaxed' }));
    await holds(a);
  }),
];
