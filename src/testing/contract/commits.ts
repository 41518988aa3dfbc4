import assert from 'node:assert/strict';
import type { Commit, NewCheckpoint, RefChange } from '../../storage/contract.ts';
import {
  type Builders,
  type CheckpointParts,
  commitOf,
  contentOf,
  deletionOf,
  moveBranch,
  rowWithRootOf,
  session,
} from './builders.ts';
import { assertNoTrace, assertRejects, assertSame, listDigests, readAll, rule } from './contract-test.ts';

const ABSENT = 'chk_0000000000000000000000';

/** A commit that brings one of everything. Its idempotency key is `once`, unless another is given. */
function fullCommit(make: Builders, parts: CheckpointParts = {}, rest: Partial<Commit> = {}): Commit {
  const [chunk, resultChunk] = [make.chunk(), make.chunk()];
  const checkpoint = make.checkpoint({ root: contentOf(chunk), idempotencyKey: 'once', ...parts });
  const effects = [make.effect({ sessionId: checkpoint.header.sessionId, ordinal: 0, result: contentOf(resultChunk) })];
  return commitOf(checkpoint, {
    chunks: [chunk, resultChunk],
    effects,
    refs: [moveBranch('main', checkpoint)],
    ...rest,
  });
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
  rule('[storage.1] a commit stores its chunks, row, effects and refs together', async ({ storage, make }) => {
    const commit = fullCommit(make);
    assertSame(await storage.commit(commit), { status: 'stored' });
    const { checkpoint, chunks = [], effects } = commit;
    assert.ok(checkpoint);
    assertSame(await storage.readCheckpoint(checkpoint.header.id), rowWithRootOf(checkpoint));
    assertSame(await storage.readChunks(chunks.map((chunk) => chunk.digest)), chunks);
    assertSame(await storage.readEffects({ sessionId: 's-1' }), effects);
    const refs = await storage.readRefs();
    assertSame(
      refs.map(({ kind, name, target }) => [kind, name, target]),
      [['branch', 'main', checkpoint.header.id]],
    );
  }),

  rule('[storage.1] a commit whose expectation fails leaves nothing', async ({ storage, make }) => {
    await storage.commit(fullCommit(make));
    const before = await readAll(storage);
    const refused = fullCommit(
      make,
      { idempotencyKey: 'other' },
      {
        refs: [
          { kind: 'tag', name: 'good', expect: null, target: ABSENT },
          { kind: 'branch', name: 'main', expect: ABSENT, target: ABSENT },
          { kind: 'mark', name: 'also-good', target: ABSENT },
        ],
      },
    );
    const { checkpoint } = refused;
    assert.ok(checkpoint);
    await assertRejects(storage.commit(refused), 'CONFLICT');
    assertSame(await storage.readCheckpoint(checkpoint.header.id), undefined);
    assertSame(await readAll(storage), before);
  }),

  rule('[storage.1] a refused first commit leaves no session and no used key', async ({ storage, make }) => {
    const refused = fullCommit(make, { sessionId: 's-2' }, { requires: [make.id()] });
    await assertRejects(storage.commit(refused), 'CONFLICT');
    await assertNoTrace(storage, session('s-2'));
    assertSame(await listDigests(storage), []);
    assertSame(await storage.commit({ ...refused, requires: [] }), { status: 'stored' });
  }),

  rule('[storage.2] a ref changes if it is where the commit expects it', async ({ storage }) => {
    const sessionId = session('s-1');
    for (const [n, { at, target, isStored, ...expected }] of MOVES.entries()) {
      const ref = { kind: 'branch', name: `b${n}` } as const;
      if (at !== null) await storage.commit({ sessionId, refs: [{ ...ref, target: at }] });
      const commit = storage.commit({ sessionId, refs: [{ ...ref, ...expected, target }] });
      if (isStored) assertSame(await commit, { status: 'stored' });
      else await assertRejects(commit, 'CONFLICT');
      const [found] = await storage.readRefs({ name: ref.name });
      assert.equal(found?.target ?? null, isStored ? target : at, JSON.stringify(MOVES[n]));
      // What was removed can be taken again.
      if (isStored && target === null)
        await storage.commit({ sessionId, refs: [{ ...ref, expect: null, target: 'x' }] });
    }
  }),

  rule('[storage.2] the same name of another session or kind is another ref', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint({ sessionId: 's-1' }), make.checkpoint({ sessionId: 's-2' })];
    await storage.commit(commitOf(a, { refs: [moveBranch('main', a, null)] }));
    await storage.commit(commitOf(b, { refs: [moveBranch('main', b, null)] }));
    const tag = { kind: 'tag', name: 'main', expect: null, target: a.header.id } as const;
    await storage.commit({ sessionId: session('s-1'), refs: [tag] });
    assert.equal((await storage.readRefs({ name: 'main' })).length, 3);
  }),

  rule('[storage.3] a CONFLICT says what was expected and what was found', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    await storage.commit(commitOf(a, { refs: [moveBranch('main', a)] }));
    const place = { sessionId: 's-1', kind: 'branch', name: 'main' };
    const moved = await assertRejects(
      storage.commit(commitOf(b, { refs: [moveBranch('main', b, ABSENT)] })),
      'CONFLICT',
    );
    assertSame(moved.details, { ...place, expected: ABSENT, found: a.header.id });
    const exists = await assertRejects(
      storage.commit(commitOf(b, { refs: [moveBranch('main', b, null)] })),
      'CONFLICT',
    );
    assertSame(exists.details, { ...place, expected: null, found: a.header.id });
    const gone = await assertRejects(storage.commit(commitOf(b, { refs: [moveBranch('x', b, ABSENT)] })), 'CONFLICT');
    assertSame(gone.details, { ...place, name: 'x', expected: ABSENT, found: null });
  }),

  rule('[storage.3] a commit needs the checkpoints it requires, of any session', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint({ sessionId: 's-1' }), make.checkpoint({ sessionId: 's-2' })];
    await storage.commit(commitOf(a));
    assertSame(await storage.commit(commitOf(b, { requires: [a.header.id] })), { status: 'stored' });
    const [missing, c] = [make.id(), make.checkpoint()];
    const refused = storage.commit(commitOf(c, { requires: [a.header.id, missing] }));
    const error = await assertRejects(refused, 'CONFLICT');
    assert.equal(error.details.missing, missing);
    assertSame(await storage.readCheckpoint(c.header.id), undefined);
  }),

  rule('[storage.3] a deleted checkpoint is not there to build on', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    await storage.commit(commitOf(a));
    await storage.deleteCheckpoints([deletionOf(a)]);
    const error = await assertRejects(storage.commit(commitOf(b, { requires: [a.header.id] })), 'CONFLICT');
    assert.equal(error.details.missing, a.header.id);
    assertSame(await storage.readCheckpoint(b.header.id), undefined);
  }),

  rule(
    '[storage.3] a checkpoint that was rewritten under its id is not there to build on',
    async ({ storage, make }) => {
      const a = make.checkpoint({ note: 'before' });
      const after = make.checkpoint({ id: a.header.id, note: 'after' });
      await storage.commit(commitOf(after, { refs: [moveBranch('main', after, null)] }));
      const id = a.header.id;
      for (const refs of [
        (b: NewCheckpoint) => [moveBranch('main', b, id)],
        (b: NewCheckpoint) => [moveBranch('own', b, null)],
      ]) {
        const b = make.checkpoint({ parent: a });
        const error = await assertRejects(storage.commit(commitOf(b, { requires: [id], refs: refs(b) })), 'CONFLICT');
        assertSame(error.details, { missing: id });
        assertSame(await storage.readCheckpoint(b.header.id), undefined);
      }
      const c = make.checkpoint({ parent: after });
      const stored = await storage.commit(commitOf(c, { requires: [id], refs: [moveBranch('main', c, id)] }));
      assertSame(stored, { status: 'stored' });
    },
  ),

  rule('[storage.4] a commit with a used key writes nothing and names the first', async ({ storage, make }) => {
    const first = fullCommit(make);
    await storage.commit(first);
    const before = await readAll(storage);
    const result = await storage.commit(fullCommit(make));
    assertSame(result, { status: 'duplicate', id: first.checkpoint?.header.id });
    assertSame(await readAll(storage), before);
  }),

  rule('[storage.4] a used key comes before requirements and expectations', async ({ storage, make }) => {
    const first = fullCommit(make);
    await storage.commit(first);
    const stale: Partial<Commit> = {
      requires: [make.id()],
      refs: [{ kind: 'branch', name: 'main', expect: ABSENT, target: null }],
    };
    const result = await storage.commit(fullCommit(make, {}, stale));
    assertSame(result, { status: 'duplicate', id: first.checkpoint?.header.id });
  }),

  rule('[storage.4] of commits with one key at the same time, one is stored', async ({ storage, make }) => {
    const commits = Array.from({ length: 10 }, () => fullCommit(make));
    const results = await Promise.all(commits.map((commit) => storage.commit(commit)));
    const rows = await storage.listCheckpoints({ limit: 20 });
    assert.equal(rows.length, 1);
    assert.equal(results.filter((result) => result.status === 'stored').length, 1);
    for (const result of results) if (result.status === 'duplicate') assert.equal(result.id, rows[0]?.id);
  }),

  rule('[storage.4] an idempotency key belongs to its session', async ({ storage, make }) => {
    for (const sessionId of ['s-1', 's-10', 'S-1', 's']) {
      assertSame(await storage.commit(fullCommit(make, { sessionId })), { status: 'stored' });
    }
  }),

  rule('[storage.4] a key is free again when its checkpoint or its session is deleted', async ({ storage, make }) => {
    const first = make.checkpoint({ idempotencyKey: 'once' });
    await storage.commit(commitOf(first));
    await storage.deleteCheckpoints([deletionOf(first)]);
    const second = make.checkpoint({ idempotencyKey: 'once' });
    assertSame(await storage.commit(commitOf(second)), { status: 'stored' });
    await storage.deleteSession(session('s-1'));
    assertSame(await storage.commit(commitOf(make.checkpoint({ idempotencyKey: 'once' }))), { status: 'stored' });
  }),

  rule(
    '[storage.3] a stored checkpoint is never replaced, not even a deleted one',
    async ({ storage, make, store }) => {
      const [a, b] = await store([{}, {}]);
      await storage.deleteCheckpoints([deletionOf(b)]);
      const before = await readAll(storage);
      for (const { header } of [a, b]) {
        const chunk = make.chunk();
        const again = make.checkpoint({ id: header.id, note: 'other', root: contentOf(chunk) });
        const refused = storage.commit(commitOf(again, { chunks: [chunk], refs: [moveBranch('x', again)] }));
        assertSame((await assertRejects(refused, 'CONFLICT')).details, { id: header.id });
      }
      assertSame(await readAll(storage), before);
    },
  ),

  rule('[storage.3] a used id comes before requirements and expectations', async ({ storage, make }) => {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    await storage.commit(commitOf(a, { refs: [moveBranch('main', a)] }));
    await storage.commit(commitOf(b, { refs: [moveBranch('main', b, a.header.id)] }));
    const again = make.checkpoint({ id: a.header.id, note: 'other' });
    const stale: Partial<Commit>[] = [
      { refs: [moveBranch('main', again, null)] },
      { refs: [moveBranch('main', again, ABSENT)], requires: [b.header.id] },
      { requires: [make.id()] },
    ];
    for (const rest of stale) {
      const error = await assertRejects(storage.commit(commitOf(again, rest)), 'CONFLICT');
      assertSame(error.details, { id: a.header.id });
    }
  }),

  rule('[storage.3] a missing requirement is refused before expectations are looked at', async ({ storage, make }) => {
    const [a, missing] = [make.checkpoint(), make.id()];
    const refused = storage.commit(commitOf(a, { requires: [missing], refs: [moveBranch('main', a, ABSENT)] }));
    assertSame((await assertRejects(refused, 'CONFLICT')).details, { missing });
  }),

  rule('[storage.3] an empty commit and a relaxed commit are commits', async ({ storage, make }) => {
    assertSame(await storage.commit({ sessionId: session('s-1') }), { status: 'stored' });
    const a = make.checkpoint();
    assertSame(await storage.commit(commitOf(a, { durability: 'relaxed' })), { status: 'stored' });
    assertSame(await storage.readCheckpoint(a.header.id), rowWithRootOf(a));
  }),
];
