import type { JsonValue } from '../../core/value/json.ts';
import type { CheckpointQuery, CheckpointRow, NewCheckpoint } from '../../storage/contract.ts';
import { commitOf, rowOf, session, tombstoneRowOf } from './builders.ts';
import { ALL, assertSame, everything, readPages, rule } from './contract-test.ts';
import { HOSTILE_NAMES, HOSTILE_TEXTS } from './hostile-text.ts';

/** Values that a careless comparison takes for one another. */
const SCALARS: readonly JsonValue[] = [null, true, false, 0, 1, -1, 1.5, 1e21, 1e-7, 9_007_199_254_740_991, 0.1, 100];
const TEXTS_LIKE_SCALARS = ['', 'null', 'true', 'false', '0', '1', '1.0', '1.5', '1e21', '[]', '{}', '"1"', 'a', 'A'];
const LISTS: readonly JsonValue[] = [[], [1], ['1'], [1, 2], [2, 1], [[1]], [null], ['a']];
const STRUCTURES: readonly JsonValue[] = [
  ...LISTS,
  {},
  { a: 1 },
  { a: '1' },
  { a: null },
  { a: { b: 1 } },
  { a: 1, b: 2 },
  { b: 2, a: 1 },
];

export const listingRules = [
  rule('[storage.7] lists are newest or oldest first, whatever arrived first', async ({ storage, make }) => {
    const ascending = Array.from({ length: 30 }, () => make.checkpoint());
    const arriving = [...ascending].sort(() => make.random.below(3) - 1);
    for (const checkpoint of arriving) await storage.commit(commitOf(checkpoint));
    const rows = ascending.map(rowOf);
    assertSame(await storage.listCheckpoints({ order: 'oldest', limit: ALL }), rows);
    assertSame(await storage.listCheckpoints({ order: 'newest', limit: ALL }), rows.toReversed());
    assertSame(await storage.listCheckpoints({ limit: ALL }), rows.toReversed());
  }),

  rule('[storage.7] order is by id and never by time', async ({ storage, store }) => {
    const [a, b] = await store([{ timestampMs: 2_000 }, { timestampMs: 1_000 }]);
    assertSame(await storage.listCheckpoints({ limit: 2 }), [rowOf(b), rowOf(a)]);
  }),

  rule('[storage.8] each filter selects by equality', async ({ store, finds }) => {
    const fields = ['sessionId', 'branch', 'agentId', 'userId', 'type', 'status'] as const;
    const marked = await store(fields.map((field) => ({ [field]: 'wanted' })));
    await store([{ agentId: 'a', userId: 'u', status: 's' }]);
    for (const [n, field] of fields.entries()) await finds({ [field]: 'wanted' }, marked.slice(n, n + 1));
    for (const field of fields) await finds({ [field]: 'unknown' }, []);
  }),

  rule('[storage.8] filters are combined with "and"', async ({ store, finds }) => {
    const [a, b, c] = await store([
      { userId: 'u', agentId: 'a', metadata: { k: 1 } },
      { userId: 'u', agentId: 'b', metadata: { k: 1 } },
      { userId: 'v', agentId: 'a', metadata: { k: 2 } },
    ]);
    await finds({ userId: 'u', agentId: 'a' }, [a]);
    await finds({ userId: 'u', metadata: { k: 1 } }, [a, b]);
    await finds({ agentId: 'a', metadata: { k: 2 }, idPrefix: c.header.id }, [c]);
    await finds({ userId: 'v', agentId: 'b' }, []);
    await finds({}, [a, b, c]);
  }),

  rule('[storage.8] bounds of time are inclusive', async ({ store, finds }) => {
    const at = (timestampMs: number) => ({ timestampMs });
    const [zero, a, b, c] = await store([at(0), at(1_000), at(2_000.5), at(3_000)]);
    await finds({ fromMs: 1_000 }, [a, b, c]);
    await finds({ toMs: 2_000.5 }, [zero, a, b]);
    await finds({ fromMs: 2_000.5, toMs: 2_000.5 }, [b]);
    await finds({ fromMs: 0, toMs: 0 }, [zero]);
    await finds({ fromMs: 2_001, toMs: 2_999 }, []);
  }),

  rule('[storage.7] `limit` and `offset` cut the answer', async ({ storage, store }) => {
    const rows = (await store(Array.from({ length: 9 }, () => ({})))).map(rowOf);
    const lists = async (query: CheckpointQuery, wanted: readonly unknown[]) =>
      assertSame(await storage.listCheckpoints(query), wanted, JSON.stringify(query));
    await lists({ order: 'oldest', limit: 4 }, rows.slice(0, 4));
    await lists({ order: 'oldest', limit: 4, offset: 3 }, rows.slice(3, 7));
    await lists({ limit: 4, offset: 7 }, rows.toReversed().slice(7));
    await lists({ limit: 4, offset: 9 }, []);
    await lists({ limit: 0 }, []);
    await lists({ order: 'oldest', after: rows[4]?.id ?? '', limit: 2, offset: 1 }, rows.slice(6, 8));
  }),

  rule(
    '[storage.7] pages have no gaps and no repeats while new checkpoints arrive',
    async ({ storage, store, save }) => {
      for (const order of ['oldest', 'newest'] as const) {
        const sessionId = `paged-${order}`;
        const old = await store(Array.from({ length: 20 }, () => ({ sessionId })));
        const arrived: NewCheckpoint[] = [];
        const seen = await readPages<CheckpointRow>(async ({ after: last }) => {
          if (last !== undefined && arrived.length < 5) arrived.push(await save({ sessionId }));
          return storage.listCheckpoints({ sessionId, order, limit: 3, ...(last && { after: last.id }) });
        });
        const wanted = order === 'oldest' ? [...old, ...arrived] : old.toReversed();
        assertSame(seen, wanted.map(rowOf));
      }
    },
  ),

  rule(
    '[storage.7] a cursor need not be the id of a checkpoint that is still there',
    async ({ storage, store, forget }) => {
      const [a, b, c] = await store([{}, {}, {}]);
      await forget(b);
      assertSame(await storage.listCheckpoints({ order: 'oldest', after: b.header.id, limit: 9 }), [rowOf(c)]);
      assertSame(await storage.listCheckpoints({ after: b.header.id, limit: 9 }), [rowOf(a)]);
      assertSame(await storage.listCheckpoints({ order: 'oldest', after: '', limit: 9 }), [rowOf(a), rowOf(c)]);
    },
  ),

  rule('[storage.9] an id prefix is matched literally', async ({ store, finds }) => {
    const [a, b] = await store([{}, {}]);
    await finds({ idPrefix: a.header.id }, [a]);
    for (const idPrefix of ['chk_', 'chk', '']) await finds({ idPrefix }, [a, b]);
    const strangers = ['CHK_', 'chk%', 'c_k_', '____', '%', 'chk*', 'chk_[0-9]', `${a.header.id}0`, 'hk_'];
    for (const idPrefix of strangers) await finds({ idPrefix }, []);
  }),

  rule('[storage.8] a metadata filter compares whole JSON values', async ({ store, finds }) => {
    const values = [...SCALARS, ...TEXTS_LIKE_SCALARS, ...STRUCTURES];
    const stored = await store(values.map((k) => ({ metadata: { k } })));
    const [other] = await store([{ metadata: { other: 1, b: 2 } }]);
    const [bare] = await store([{}]);
    for (const [n, k] of values.entries()) await finds({ metadata: { k } }, stored.slice(n, n + 1));
    await finds({ metadata: { other: 1, b: 2 } }, [other]);
    await finds({ metadata: { other: 1, b: 3 } }, []);
    await finds({ metadata: {} }, [...stored, other, bare]);
  }),

  rule('[storage.8] metadata keys and values may be any text', async ({ store, finds }) => {
    const keyed = await store(HOSTILE_TEXTS.map((key) => ({ metadata: { [key]: 'here' } })));
    const valued = await store(HOSTILE_TEXTS.map((value) => ({ metadata: { value } })));
    await store([{ metadata: { deep: { a: 'here', b: { a: 'here' } }, list: ['here'] } }]);
    for (const [n, text] of HOSTILE_TEXTS.entries()) {
      await finds({ metadata: { [text]: 'here' } }, keyed.slice(n, n + 1));
      await finds({ metadata: { value: text } }, valued.slice(n, n + 1));
      await finds({ metadata: { [text]: 'elsewhere' } }, []);
    }
    const paths = ['deep.a', '$.deep.a', 'deep.b.a', 'list[0]', 'deep"."a', "deep'.'a"];
    for (const path of paths) await finds({ metadata: { [path]: 'here' } }, []);
    // What every object inherits is not metadata of a checkpoint.
    await finds({ metadata: { ['__proto__']: {} } }, []);
  }),

  rule('[storage.9] filter values are data: no text selects more than itself', async ({ store, finds }) => {
    // Every field is tried with every text, one checkpoint holding another text in each field.
    const fields = ['sessionId', 'branch', 'agentId', 'userId', 'type', 'status'] as const;
    const nameAt = (place: number) => HOSTILE_NAMES[place % HOSTILE_NAMES.length] ?? '';
    const named = await store(
      HOSTILE_NAMES.map((_, n) => Object.fromEntries(fields.map((field, shift) => [field, nameAt(n + shift)]))),
    );
    for (const [n, name] of HOSTILE_NAMES.entries())
      for (const [shift, field] of fields.entries()) {
        if ((n + shift) % 3 !== 0) continue; // a third of all pairs, each text and each field among them
        const place = (n - shift + HOSTILE_NAMES.length) % HOSTILE_NAMES.length;
        await finds({ [field]: name }, named.slice(place, place + 1));
      }
    const strangers = HOSTILE_TEXTS.filter((text) => !HOSTILE_NAMES.includes(text));
    for (const [n, text] of strangers.entries()) await finds({ [fields[n % fields.length] ?? 'status']: text }, []);
  }),

  rule('[storage.9] cursors and prefixes are data', async ({ store, finds }) => {
    const stored = await store([{}, {}]);
    for (const text of HOSTILE_TEXTS) {
      const begun = stored.filter(({ header }) => header.id.startsWith(text));
      await finds({ idPrefix: text }, begun);
      const after = stored.filter(({ header }) => header.id > text);
      await finds({ after: text }, after);
    }
  }),

  rule('[storage.9] names match exactly: "a-1" is not "a-10", nor "A-1"', async ({ store, finds }) => {
    const names = ['a-1', 'a-10', 'a-', 'A-1', 'a-1 ', ' a-1', 'a_1', 'a-01'];
    for (const field of ['sessionId', 'branch', 'agentId', 'userId'] as const) {
      const stored = await store(names.map((name) => ({ sessionId: field, [field]: name })));
      for (const [n, name] of names.entries()) await finds({ [field]: name }, stored.slice(n, n + 1));
    }
  }),

  rule(
    '[storage.8] tombstones are listed on request, by what they still say',
    async ({ storage, store, forget, finds }) => {
      const [a, b] = await store([{ userId: 'u', metadata: { k: 1 } }, { userId: 'u' }]);
      await forget(a);
      assertSame(await storage.listCheckpoints(everything()), [rowOf(b)]);
      assertSame(await storage.listCheckpoints(everything({ include: 'live' })), [rowOf(b)]);
      assertSame(await storage.listCheckpoints(everything({ include: 'all' })), [tombstoneRowOf(a), rowOf(b)]);
      await finds({ include: 'all', branch: 'main', idPrefix: a.header.id }, [a]);
      await finds({ include: 'all', sessionId: 's-1', toMs: a.header.timestampMs }, [a]);
      await finds({ include: 'all', userId: 'u' }, [b]);
      await finds({ include: 'all', type: 'routine' }, [b]);
      await finds({ include: 'all', metadata: { k: 1 } }, []);
    },
  ),

  rule('[storage.10] sessions are listed once each, in order, page by page', async ({ storage, make, store }) => {
    const names = ['b', 'a-10', 'a-1', 'a', 'A', 'a-2', 'c', 'Z'];
    await store(names.flatMap((sessionId) => [{ sessionId }, { sessionId }]));
    await storage.commit({ sessionId: session('only-ref'), refs: [{ kind: 'mark', name: 'm', target: 'x' }] });
    const sessionId = session('only-effect');
    await storage.commit({ sessionId, effects: [make.effect({ sessionId, ordinal: 0 })] });
    const wanted = [...names, 'only-ref', 'only-effect'].sort();
    assertSame(await storage.listSessions({ limit: ALL }), wanted);
    assertSame(await readPages<string>((cursor) => storage.listSessions({ ...cursor, limit: 3 })), wanted);
  }),
];
