import { HumanMessage } from '@langchain/core/messages';
import { InMemoryStore } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { SavestateStore } from '../index.ts';

async function fill(storage: ChunkStorage): Promise<SavestateStore> {
  const store = new SavestateStore(storage);
  await store.put(['users', 'ann'], 'pets', { text: 'Ann adopted two cats and a dog', kind: 'fact' });
  await store.put(['users', 'ann'], 'work', { text: 'Ann paints houses', kind: 'fact' });
  await store.put(['users', 'bob'], 'pets', { text: 'Bob dreams of the adoption of a cat', kind: 'wish' });
  await store.put(['users', 'bob'], 'trip', { notes: [{ text: 'went to Oslo' }], year: 2031, kind: 'fact' });
  await store.put(['docs'], 'pets', { text: 'How to adopt cats', kind: 'doc' });
  return store;
}

const keysOf = (items: readonly { namespace: string[]; key: string }[]) =>
  items.map(({ namespace, key }) => [...namespace, key].join('/'));

describeOn(STORAGES)('[langgraph.16] on %s a query', (_, create) => {
  const openFilled = () => fill(create().storage);

  test('ranks by words, whatever their form, best first with a score; the others follow in their order without one', async () => {
    const store = await openFilled();
    const found = await store.search(['users'], { query: 'Who has adopted a dog and cats?' });
    expect(keysOf(found)).toEqual(['users/ann/pets', 'users/bob/pets', 'users/ann/work', 'users/bob/trip']);
    const [best, second, ...others] = found.map(({ score }) => score);
    expect(best).toBe(1);
    expect(second).toBeGreaterThan(0);
    expect(second).toBeLessThan(1);
    expect(others).toEqual([undefined, undefined]);
  });

  test('looks into lists, numbers, maps and messages, and not at the names of fields', async () => {
    const store = await openFilled();
    const message = { said: new Map([['x', [new HumanMessage('the harbour was frozen')]]]), at: new Date(0), big: 1n };
    await store.put(['users', 'eve'], 'log', message);
    const first = async (query: string) => (await store.search(['users'], { query }))[0];
    expect((await first('Oslo'))?.key).toBe('trip');
    expect((await first('2031'))?.key).toBe('trip');
    expect(await first('frozen harbours')).toMatchObject({ key: 'log', value: message });
    expect((await first('notes'))?.score).toBeUndefined();
  });

  test('goes over what passes prefix and filter, and is cut afterwards', async () => {
    const store = await openFilled();
    const query = 'cat';
    expect(keysOf(await store.search(['docs'], { query }))).toEqual(['docs/pets']);
    expect(keysOf(await store.search([], { query, filter: { kind: 'wish' } }))).toEqual(['users/bob/pets']);
    const all = await store.search([], { query });
    expect(await store.search([], { query, limit: 2 })).toEqual(all.slice(0, 2));
    expect(await store.search([], { query, limit: 2, offset: 1 })).toEqual(all.slice(1, 3));
    expect(await store.search([], { query, limit: 2, offset: 4 })).toEqual(all.slice(4));
  });

  test('that has no words, or none that are there, leaves the order as it is', async () => {
    const store = await openFilled();
    const plain = await store.search([]);
    for (const query of ['', 'who is it?', 'zeppelin']) expect(await store.search([], { query })).toEqual(plain);
  });

  test("leaves out no item, as LangGraph's own store without an index does", async () => {
    const [ours, theirs] = [new SavestateStore(create().storage), new InMemoryStore()];
    for (const store of [ours, theirs])
      for (let n = 0; n < 30; n++) await store.put(['n'], `k${n}`, { text: n % 2 === 0 ? 'even' : 'odd one' });
    const query = 'odd';
    const [mine, other] = [
      await ours.search(['n'], { query, limit: 99 }),
      await theirs.search(['n'], { query, limit: 99 }),
    ];
    expect(keysOf(mine).toSorted()).toEqual(keysOf(other).toSorted());
    expect(mine.slice(0, 15).every(({ value }) => value.text === 'odd one')).toBe(true);
  });

  test('sees what changed since the last one', async () => {
    const store = await openFilled();
    expect((await store.search(['users'], { query: 'Oslo' }))[0]?.key).toBe('trip');
    await store.put(['users', 'bob'], 'trip', { text: 'went to Rome' });
    await store.put(['users', 'ann'], 'work', { text: 'now in Oslo' });
    expect((await store.search(['users'], { query: 'Oslo' }))[0]?.key).toBe('work');
  });
});

test.each(STORAGES)(
  '[langgraph.16] on %s with an index a query goes by the fields it names, or not by this item at all',
  async (_, create) => {
    const store = new SavestateStore(create().storage);
    const value = { title: 'harbour', body: { parts: [{ text: 'fog' }, { text: 'rain' }] } };
    await store.put(['n'], 'title', value, ['title']);
    await store.put(['n'], 'parts', value, ['body.parts[*].text']);
    await store.put(['n'], 'none', value, false);
    const scored = async (query: string) =>
      (await store.search(['n'], { query })).filter(({ score }) => score !== undefined).map(({ key }) => key);
    expect(await scored('harbour')).toEqual(['title']);
    expect(await scored('rain')).toEqual(['parts']);
    await store.put(['n'], 'last', value, ['body.parts[-1]']);
    expect(await scored('fog')).toEqual(['parts']);
    expect(await scored('rain')).toEqual(['last', 'parts']);
    await store.put(['n'], 'all', value, ['$', 'absent.path[0]']);
    expect(await scored('harbour')).toEqual(['title', 'all']);
    await store.delete(['n'], 'all');
    await store.put(['n'], 'none', value);
    expect((await scored('harbour')).toSorted()).toEqual(['none', 'title']);
  },
);
