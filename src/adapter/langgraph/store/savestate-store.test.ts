import { HumanMessage } from '@langchain/core/messages';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { type BaseStore, InMemoryStore, type Item, type Operation } from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { drawn } from '../../../../test/support/trials.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { langGraphClasses, SavestateStore } from '../index.ts';

const open = () => new SavestateStore(new InMemoryCheckpointStorage());

const NAMESPACES = fc.constantFrom(['users'], ['users', 'ann'], ['users', 'bob'], ['docs', 'a', 'b']);
const KEYS = fc.constantFrom('k1', 'k2', 'k3');
const VALUES = fc.record({
  n: fc.integer({ min: 0, max: 5 }),
  kind: fc.constantFrom('a', 'b'),
  deep: fc.constant({ x: [1] }),
});
const CONDITIONS = fc.oneof(
  fc.integer({ min: 0, max: 5 }),
  fc.record(
    {
      $eq: fc.integer({ min: 0, max: 5 }),
      $ne: fc.integer({ min: 0, max: 5 }),
      $gt: fc.integer({ min: 0, max: 5 }),
      $gte: fc.integer({ min: 0, max: 5 }),
      $lt: fc.integer({ min: 0, max: 5 }),
      $lte: fc.integer({ min: 0, max: 5 }),
      $in: fc.array(fc.integer({ min: 0, max: 5 })),
      $nin: fc.array(fc.integer({ min: 0, max: 5 })),
    },
    { requiredKeys: [] },
  ),
);
const PUTS = fc.record({ namespace: NAMESPACES, key: KEYS, value: VALUES });
const DELETIONS = fc.record({ namespace: NAMESPACES, key: KEYS, value: fc.constant(null) });
const GETS = fc.record({ namespace: NAMESPACES, key: KEYS });
const SEARCHES = fc.record({
  namespacePrefix: fc.constantFrom([], ['users'], ['docs', 'a']),
  filter: fc.record({ n: CONDITIONS, kind: fc.constantFrom('a', 'b', { $ne: 'a' }) }, { requiredKeys: [] }),
  limit: fc.integer({ min: 1, max: 6 }),
  offset: fc.integer({ min: 0, max: 3 }),
});
const LISTS = fc.record({
  matchConditions: fc.constantFrom(
    undefined,
    [{ matchType: 'prefix' as const, path: ['users', '*'] }],
    [{ matchType: 'suffix' as const, path: ['b'] }],
  ),
  maxDepth: fc.constantFrom(undefined, 1, 2),
  limit: fc.constant(10),
  offset: fc.integer({ min: 0, max: 2 }),
});

/**
 * Random batches, given to both stores. A batch reads or writes: LangGraph's store hands out the items themselves, so that there
 * a get shows what was put after it.
 */
async function compare(writes: fc.Arbitrary<object>, reads: fc.Arbitrary<object>): Promise<void> {
  const some = { minLength: 1, maxLength: 4 };
  const batches = fc.array(fc.oneof(fc.array(writes, some), fc.array(reads, some)), { maxLength: 16 });
  const property = fc.asyncProperty(batches, async (given) => {
    const [ours, theirs] = [open(), new InMemoryStore()];
    for (const batch of given as Operation[][])
      expect(await answers(ours, batch)).toEqual(await answers(theirs, batch));
  });
  await fc.assert(property, drawn(1_500));
}

describe('[langgraph.14] the store', () => {
  test("answers what LangGraph's own store in memory answers, in the same order", async () => {
    await compare(PUTS, fc.oneof(GETS, SEARCHES, LISTS));
  });

  test('also after deletions', async () => {
    const everything = fc.constant({ namespacePrefix: [], limit: 100 });
    await compare(fc.oneof(PUTS, PUTS, DELETIONS), fc.oneof(GETS, everything));
  });

  test('reads what was there before the batch', async () => {
    const store = open();
    const put = { namespace: ['n'], key: 'k', value: { n: 1 } };
    expect(await store.batch([put, { namespace: ['n'], key: 'k' }])).toEqual([null, null]);
    expect(await store.batch([{ namespace: ['n'], key: 'k', value: null }, { namespacePrefix: ['n'] }])).toMatchObject([
      null,
      [put],
    ]);
    expect(await store.search(['n'])).toEqual([]);
  });

  test('keeps namespaces apart that only look alike', async () => {
    const store = open();
    await store.put(['a:b'], 'k', { n: 1 });
    await store.put(['a', 'b'], 'k', { n: 2 });
    await store.put(['ab'], 'k', { n: 3 });
    expect((await store.get(['a:b'], 'k'))?.value).toEqual({ n: 1 });
    expect((await store.search(['a'])).map(({ value }) => value)).toEqual([{ n: 2 }]);
    expect(await store.listNamespaces()).toHaveLength(3);
    await store.delete(['ab'], 'k');
    expect(await store.listNamespaces()).toHaveLength(2);
  });

  test('keeps values as they are, and hands out copies', async () => {
    const store = open();
    const value = { at: new Date(5), big: 1n, messages: [new HumanMessage('x')], set: new Set([1]) };
    await store.put(['n'], 'k', value);
    const found = (await store.get(['n'], 'k')) as Item;
    expect(found.value).toEqual(value);
    value.messages.pop();
    found.value.set.clear();
    const again = (await store.search(['n']))[0];
    expect(again?.value).toMatchObject({ messages: [{ content: 'x' }], set: new Set([1]) });
    await expect(store.put(['n'], 'k', { run: () => 1 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect((await store.get(['n'], 'k'))?.updatedAt).toEqual(found.updatedAt);
  });

  test('refuses what no item can have, before anything is done', async () => {
    const store = open();
    const put = { namespace: ['n'], key: 'k', value: { a: 1 } };
    const refused = { code: 'INVALID_INPUT' };
    await expect(store.batch([put, { namespace: [], key: 'k', value: {} }])).rejects.toMatchObject(refused);
    await expect(store.batch([put, { namespace: ['n'], key: 5 as never, value: {} }])).rejects.toMatchObject(refused);
    await expect(store.put(['n'], 'k', { a: 1 }, 'a' as never)).rejects.toMatchObject(refused);
    expect(await store.search([])).toEqual([]);
  });

  test('takes keys and labels of any characters', async () => {
    const store = open();
    const keys = ['__proto__', 'constructor', '10', '9', '', '\ud800', '\ud801', '$', 'ä"\\'];
    for (const key of keys) await store.put([`ns ${key}`, '$'], key, { key });
    for (const key of keys) await store.put(['one'], key, { key });
    expect((await store.search(['one'])).map(({ value }) => value.key)).toEqual(keys);
    for (const key of keys) expect((await store.get([`ns ${key}`, '$'], key))?.value).toEqual({ key });
  });
});

describeOn(STORAGES)('[langgraph.14] the store on %s', (_, create) => {
  test('is there when it is opened again, and takes writes of several at once', async () => {
    const { storage, reopen = () => storage } = create();
    const other = reopen();
    const stores = [new SavestateStore(storage), new SavestateStore(other)];
    await Promise.all(Array.from({ length: 8 }, (_, n) => stores[n % 2]?.put(['items', `g${n % 3}`], `k${n}`, { n })));
    const fresh = new SavestateStore({ storage });
    const found = await fresh.search(['items'], { limit: 100 });
    expect(found.map(({ value }) => value.n).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(await new SavestateStore({ storage, name: 'another' }).search(['items'])).toEqual([]);

    const manager = new CheckpointManager({ storage, classes: langGraphClasses });
    expect((await manager.list({ sessionId: 'lg-store/default' })).checkpoints).toHaveLength(8);
    expect((await manager.verify()).findings).toEqual([]);
    await storage.close();
    await other.close();
  });

  test('serves a graph', async () => {
    const { storage } = create();
    const store = new SavestateStore(storage);
    const graph = new StateGraph(Annotation.Root({ seen: Annotation<number> }))
      .addNode('remember', async (_state, config) => {
        const known = await config.store?.get(['users', 'ann'], 'visits');
        const visits = Number(known?.value.count ?? 0) + 1;
        await config.store?.put(['users', 'ann'], 'visits', { count: visits });
        return { seen: visits };
      })
      .addEdge(START, 'remember')
      .addEdge('remember', END)
      .compile({ store });
    expect(await graph.invoke({})).toEqual({ seen: 1 });
    expect(await graph.invoke({})).toEqual({ seen: 2 });
    await storage.close();
  });
});

/** What a store answers, without times. */
async function answers(store: BaseStore, batch: Operation[]): Promise<unknown> {
  const results = (await store.batch(batch)) as unknown[];
  const withoutTimes = (key: string, value: unknown) => (key === 'createdAt' || key === 'updatedAt' ? 'time' : value);
  const sorted = results.map((result) => (isWhole(batch) && Array.isArray(result) ? result.toSorted(byPlace) : result));
  return JSON.parse(
    JSON.stringify(
      sorted.map((result) => result ?? null),
      withoutTimes,
    ),
  );
}

/** Whether a batch asks for everything there is. Where deletions are, the order of namespaces is not compared: ours drops empty ones. */
function isWhole(batch: readonly Operation[]): boolean {
  return batch.some((operation) => 'namespacePrefix' in operation && operation.limit === 100);
}

function byPlace(a: Item, b: Item): number {
  return JSON.stringify([a.namespace, a.key]) < JSON.stringify([b.namespace, b.key]) ? -1 : 1;
}
