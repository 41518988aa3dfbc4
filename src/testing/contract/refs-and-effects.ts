import assert from 'node:assert/strict';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage, Commit, NewCheckpoint, RefChange, EffectRow as Row } from '../../storage/contract.ts';
import { checkRef, createRef } from '../../storage/ref.ts';
import { contentOf, session } from './builders.ts';
import { assertNoTrace, assertSame, rule } from './contract-test.ts';
import { HOSTILE_NAMES } from './hostile-text.ts';

const KINDS = ['branch', 'tag', 'pin', 'mark', 'current', 'lease', 'due', 'log', 'group'] as const;
const LOG_LENGTH = 5_000;

export const refRules = [
  rule('[storage.11] refs are given by session, kind and name, in that order', async ({ storage }) => {
    const names = ['b', 'a', 'a!', 'a"', 'B', 'a-1', 'a-10'];
    const sessions = ['s-1', 's', 's!', 's-10'].map(session);
    const refs = KINDS.flatMap((kind) => names.map((name) => ({ kind, name, target: `${kind} ${name}` })));
    for (const sessionId of sessions) await storage.commit({ sessionId, refs });
    const inOrder = KINDS.toSorted().flatMap((kind) => names.toSorted().map((name) => ({ kind, name })));
    const wanted = sessions
      .toSorted()
      .flatMap((sessionId) =>
        inOrder.map(({ kind, name }) => createRef({ sessionId, kind, name, target: `${kind} ${name}` })),
      );
    const queries: Parameters<ChunkStorage['readRefs']>[0][] = [
      undefined,
      {},
      { sessionId: 's-1' },
      { kind: 'tag' },
      { name: 'a-1' },
      { sessionId: 's', kind: 'pin' },
      { sessionId: 's-10', kind: 'mark', name: 'B' },
      { sessionId: 'unknown' },
    ];
    for (const query of queries) {
      const found = wanted.filter((ref) => JSON.stringify({ ...ref, ...query }) === JSON.stringify(ref));
      assertSame(await storage.readRefs(query), found, JSON.stringify(query));
    }
  }),

  rule('[storage.11] names and targets of refs may be any name, with a valid check', async ({ storage }) => {
    const refs = HOSTILE_NAMES.map((name): RefChange => ({ kind: 'branch', name, target: `to ${name}` }));
    for (const sessionId of HOSTILE_NAMES)
      await storage.commit({ sessionId: session(sessionId), refs: refs.slice(0, 2) });
    await storage.commit({ sessionId: session('all-names'), refs });
    for (const { name } of refs) {
      const [ref, ...others] = await storage.readRefs({ sessionId: 'all-names', kind: 'branch', name });
      assert.ok(ref !== undefined && others.length === 0, name);
      const sessionId = session('all-names');
      assertSame(checkRef(ref), createRef({ sessionId, kind: 'branch', name, target: `to ${name}` }));
    }
    for (const sessionId of HOSTILE_NAMES) assert.equal((await storage.readRefs({ sessionId })).length, 2, sessionId);
  }),

  rule('[storage.11] what is due is given by target, whatever its session', async ({ storage }) => {
    const due = (target: string): RefChange => ({ kind: 'due', name: `by ${target}`, target });
    await storage.commit({ sessionId: session('s-2'), refs: [due('0300'), due('0100'), due('2')] });
    const lease = { kind: 'lease', name: 'a', target: '01' } as const;
    await storage.commit({ sessionId: session('s-1'), refs: [due('0200'), lease] });
    const targets = async (before: string, limit: number) =>
      (await storage.readDue({ before, limit })).map((ref) => checkRef(ref).target);
    assert.deepEqual(await targets('0300', 10), ['0100', '0200']);
    assert.deepEqual(await targets('1', 2), ['0100', '0200']);
    assert.deepEqual(await targets('9', 10), ['0100', '0200', '0300', '2']);
    await storage.commit({ sessionId: session('s-2'), refs: [{ kind: 'due', name: 'by 0100', target: '0400' }] });
    await storage.commit({ sessionId: session('s-1'), refs: [{ kind: 'due', name: 'by 0200', target: null }] });
    assert.deepEqual(await targets('1', 10), ['0300', '0400']);
  }),

  rule(
    '[storage.2] a change to the target it expects is a check that changes nothing',
    async ({ storage, refuses }) => {
      const sessionId = session('s-1');
      const lease = (target: string): RefChange => ({ kind: 'lease', name: 'main', expect: '1', target });
      await storage.commit({ sessionId, refs: [{ kind: 'lease', name: 'main', target: '1' }] });
      const before = await storage.readRefs();
      await storage.commit({ sessionId, refs: [lease('1'), { kind: 'tag', name: 'a', target: 'x' }] });
      assertSame(await storage.readRefs({ kind: 'lease' }), before);
      await storage.commit({ sessionId, refs: [lease('2')] });
      await refuses({ sessionId, refs: [lease('1'), { kind: 'tag', name: 'b', target: 'x' }] });
      assert.deepEqual(await storage.readRefs({ kind: 'tag', name: 'b' }), []);
    },
  ),

  rule('[storage.11] the check follows the target when the ref moves', async ({ storage }) => {
    const sessionId = session('s-1');
    for (const target of ['x', 'y'])
      await storage.commit({ sessionId, refs: [{ kind: 'current', name: 'c', target }] });
    assertSame(await storage.readRefs(), [createRef({ sessionId, kind: 'current', name: 'c', target: 'y' })]);
  }),

  rule('[storage.11] a thousand refs can be changed in one commit', async ({ storage }) => {
    const tag = (n: number): RefChange => ({ kind: 'tag', name: `t${n}`, expect: null, target: `${n}` });
    const refs = Array.from({ length: 1_000 }, (_, n) => tag(n));
    await storage.commit({ sessionId: session('s-1'), refs });
    assert.equal((await storage.readRefs({ kind: 'tag' })).length, 1_000);
  }),
];

export const effectRules = [
  rule('[storage.12] effects are read in order, by branch, from an ordinal on', async ({ storage, make }) => {
    const sessionId = session('s-1');
    const rows = ['a', 'a-1', 'b'].flatMap((branch) =>
      [0, 1, 2, 9, 10, 11, 100].map((ordinal) => make.effect({ branch, ordinal })),
    );
    const arriving = rows.toSorted((a, b) => b.ordinal - a.ordinal);
    for (const effect of arriving.slice(0, 6)) await storage.commit({ sessionId, effects: [effect] });
    await storage.commit({ sessionId, effects: arriving.slice(6) });
    const other = session('s-10');
    const effects = [make.effect({ sessionId: other, branch: 'a', ordinal: 3 })];
    await storage.commit({ sessionId: other, effects });
    for (const branch of [undefined, 'a', 'a-1', 'b', 'none'])
      for (const fromOrdinal of [undefined, 3, 9, 100, 101]) {
        const query = { ...(branch && { branch }), ...(fromOrdinal && { fromOrdinal }) };
        const isWanted = (row: Row) => row.branch === (branch ?? row.branch) && row.ordinal >= (fromOrdinal ?? 0);
        assertSame(await storage.readEffects({ sessionId, ...query }), rows.filter(isWanted), JSON.stringify(query));
      }
    assertSame(await storage.readEffects({ sessionId: 'unknown' }), []);
  }),

  rule('[storage.12] a later effect of the same place replaces the earlier', async ({ storage, make }) => {
    const sessionId = session('s-1');
    const chunk = make.chunk();
    const started = make.effect({ ordinal: 1 });
    const finished = make.effect({ ordinal: 1, result: contentOf(chunk) });
    const neighbours = [make.effect({ ordinal: 0 }), make.effect({ ordinal: 2 })] as const;
    await storage.commit({ sessionId, effects: [started, ...neighbours] });
    await storage.commit({ sessionId, effects: [finished], chunks: [chunk] });
    assertSame(await storage.readEffects({ sessionId }), [neighbours[0], finished, neighbours[1]]);
    await storage.commit({ sessionId, effects: [finished, started] });
    assertSame(await storage.readEffects({ sessionId }), [neighbours[0], started, neighbours[1]]);
  }),

  rule('[storage.12] an effect takes the place of what it expects there', async (context) => {
    const { storage, make, accepts, refuses, leaves } = context;
    const sessionId = session('s-1');
    const [first, second, third] = [0, 0, 0].map((ordinal) => make.effect({ ordinal })) as [Row, Row, Row];
    const other = make.effect({ ordinal: 1 });
    const put = (row: Row, expect: Digest | null): Commit => ({ sessionId, effects: [{ ...row, expect }, other] });
    const refused = { sessionId, branch: 'main', ordinal: 0 };
    await refuses(put(first, second.digest), refused);
    await assertNoTrace(storage, sessionId);
    await accepts(put(first, null));
    await refuses(put(second, null), refused);
    await accepts(put(second, first.digest));
    // Nothing of a refused commit is stored.
    const chunk = make.chunk();
    const rest = { chunks: [chunk], refs: [{ kind: 'tag', name: 'new', target: 'x' } as const] };
    await refuses({ ...put(third, first.digest), ...rest }, refused);
    assertSame(await storage.readEffects({ sessionId }), [second, other]);
    assertSame(await storage.readRefs(), []);
    await leaves();
    await accepts({ ...put(third, second.digest), ...rest });
    assertSame(await storage.readEffects({ sessionId }), [third, other]);
    // Refs are looked at first.
    const tag = { kind: 'tag', name: 'new' } as const;
    const stale = { ...put(first, null), refs: [{ ...tag, expect: 'y', target: 'z' }] };
    await refuses(stale, { sessionId, ...tag, expected: 'y', found: 'x' });
  }),

  rule('[storage.12] of several at the same time that expect the same, one is stored', async ({ storage, make }) => {
    const sessionId = session('s-1');
    const first = make.effect({ ordinal: 0 });
    await storage.commit({ sessionId, effects: [first] });
    const rows = Array.from({ length: 10 }, () => make.effect({ ordinal: 0 }));
    const put = (row: Row, expect: Digest) => storage.commit({ sessionId, effects: [{ ...row, expect }] });
    const results = await Promise.allSettled(rows.map((row) => put(row, first.digest)));
    const stored = rows.filter((_, n) => results[n]?.status === 'fulfilled');
    assert.equal(stored.length, 1);
    assertSame(await storage.readEffects({ sessionId }), stored);
    // Each on top of the one before it, in the order of the calls.
    await Promise.all(rows.map((row, n) => put(row, (rows[n - 1] ?? stored[0] ?? row).digest)));
    assertSame(await storage.readEffects({ sessionId }), rows.slice(-1));
  }),

  rule('[storage.15] what was filed under a checkpoint is deleted with it', async (context) => {
    const { storage, make, store, forget, leaves } = context;
    const [a, b] = await store([{}, {}]);
    const [first, kept, last] = [make.chunk(), make.chunk(), make.chunk()];
    const sessionId = session('s-1');
    const file = ({ header: { id: branch } }: NewCheckpoint, ordinal: number, chunk: Chunk) => {
      const effects = [make.effect({ branch, ordinal, result: contentOf(chunk) })];
      const refs = [{ kind: 'log', name: branch, target: String(ordinal + 1) } as const];
      return storage.commit({ sessionId, chunks: [chunk], effects, refs });
    };
    await file(a, 0, first);
    await file(b, 0, kept);
    await file(a, 1, last);
    const left = await storage.readEffects({ sessionId, branch: b.header.id });
    await forget(a);
    assertSame(await storage.readEffects({ sessionId }), left);
    const logs = await storage.readRefs({ sessionId, kind: 'log' });
    assertSame(
      logs.map(({ name }) => name),
      [b.header.id],
    );
    await leaves(kept);
    assert.deepEqual(await storage.checkIntegrity(), []);
    // The place is free, and the collector sees what is filed there.
    await file(a, 0, last);
    await leaves(kept, last);
  }),

  rule('[storage.15] the beginning of a log is removed, as much as asked for', async ({ storage, make, leaves }) => {
    if (storage.dropEffects === undefined) return;
    const sessionId = session('s-1');
    const chunks = Array.from({ length: 6 }, () => make.chunk());
    const logOf = (branch: string) =>
      chunks.map((chunk, ordinal) => make.effect({ branch, ordinal, result: contentOf(chunk) }));
    const [own, other] = [logOf('main'), logOf('main-2').slice(5)];
    const refs = [{ kind: 'log', name: 'main', target: '6' } as const];
    await storage.commit({ sessionId, chunks, effects: [...own, ...other], refs });
    const drop = { sessionId, branch: 'main', before: 4 };
    assert.equal(await storage.dropEffects({ ...drop, limit: 3 }), 3);
    assertSame(await storage.readEffects({ sessionId }), [...own.slice(3), ...other]);
    assert.equal(await storage.dropEffects({ ...drop, limit: 3 }), 1);
    assert.equal(await storage.dropEffects({ ...drop, limit: 3 }), 0);
    for (const name of [...HOSTILE_NAMES, 'none'])
      assert.equal(await storage.dropEffects({ ...drop, branch: name, limit: 3 }), 0);
    assert.equal(await storage.dropEffects({ ...drop, sessionId: session('unknown'), limit: 3 }), 0);
    assertSame(await storage.readEffects({ sessionId }), [...own.slice(4), ...other]);
    assert.equal((await storage.readRefs({ sessionId, kind: 'log' }))[0]?.target, '6');
    await leaves(...chunks.slice(4));
    assert.deepEqual(await storage.checkIntegrity(), []);
    // A place that is used again, and the collector sees what is there.
    await storage.commit({ sessionId, chunks: chunks.slice(0, 1), effects: own.slice(0, 1) });
    await leaves(...chunks.slice(0, 1), ...chunks.slice(4));
    assertSame(await storage.readEffects({ sessionId, branch: 'main' }), [...own.slice(0, 1), ...own.slice(4)]);
  }),

  rule('[storage.12] a log of 5,000 effects is written at once and read at once', async ({ storage, make }) => {
    const effects = Array.from({ length: LOG_LENGTH }, (_, ordinal) => make.effect({ ordinal }));
    await storage.commit({ sessionId: session('s-1'), effects });
    assertSame(await storage.readEffects({ sessionId: 's-1', branch: 'main' }), effects);
    const last = await storage.readEffects({ sessionId: 's-1', branch: 'main', fromOrdinal: 4_990 });
    assertSame(last, effects.slice(4_990));
  }),
];
