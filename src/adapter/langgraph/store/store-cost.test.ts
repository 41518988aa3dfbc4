import { describe, expect, test } from 'vitest';
import { LATER } from '../../../../test/support/later.ts';
import type { Chunk, Digest } from '../../../core/tree/chunk.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { Commit, CommitResult } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { langGraphClasses, SavestateStore } from '../index.ts';

/** Counts what is written and read. */
class CountingStorage extends InMemoryCheckpointStorage {
  commits = 0;
  chunks = 0;
  chars = 0;
  read = 0;

  override commit(commit: Commit): Promise<CommitResult> {
    this.commits++;
    const written = [commit.checkpoint?.root, ...(commit.chunks ?? [])].flatMap((chunk) => chunk ?? []);
    this.chunks += written.length;
    for (const { text, refs } of written) this.chars += text.length + refs.length * 32;
    return super.commit(commit);
  }

  override readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    this.read += digests.length;
    return super.readChunks(digests);
  }

  override async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    const chunks = await super.readReachable(digests);
    this.read += chunks.length;
    return chunks;
  }

  reset(): void {
    this.commits = this.chunks = this.chars = this.read = 0;
  }
}

const value = (n: number) => ({ text: `fact ${n} `.repeat(20), n });

/** How items are spread over namespaces. */
const SPREADS: readonly [string, (n: number) => string[]][] = [
  ['one namespace', () => ['users', 'ann']],
  ['fifty namespaces', (n) => ['users', `u${n % 50}`]],
  ['a namespace for each item', (n) => ['users', `u${n}`]],
];

async function fill(store: SavestateStore, [from, to]: [number, number], spread: (n: number) => string[]) {
  const numbers = Array.from({ length: to - from }, (_, at) => from + at);
  await store.batch(numbers.map((n) => ({ namespace: spread(n), key: `k${n}`, value: value(n) })));
}

describe.each(SPREADS)('[langgraph.15] in %s', (_, spread) => {
  test('a put, also of an item that is there, and a deletion write what they change', LATER, async () => {
    const storage = new CountingStorage();
    const store = new SavestateStore(storage);
    const measure = async (size: number) => {
      storage.reset();
      for (let n = 0; n < 10; n++) await store.put(spread(size + n), `k${size + n}`, value(size + n));
      for (let n = 0; n < 10; n++) await store.put(spread(n), `k${n}`, value(size + n));
      for (let n = 0; n < 10; n++) await store.delete(spread(size + n), `k${size + n}`);
      expect(storage.commits).toBe(30);
      expect(storage.read).toBe(0);
      return { chunks: storage.chunks, chars: storage.chars };
    };
    await fill(store, [0, 10], spread);
    const small = await measure(10);
    await fill(store, [10, 5000], spread);
    const large = await measure(5000);
    expect(large.chunks).toBeLessThan(2 * small.chunks);
    // A tree of 5,000 is three levels higher than one of 10; what is written grows with the levels, and not with the items.
    expect(large.chars).toBeLessThan(3.5 * small.chars);
  });

  test('[langgraph.15] reading an item, or the first ones, reads what leads to them', async () => {
    const storage = new CountingStorage();
    await fill(new SavestateStore(storage), [0, 5000], spread);
    storage.reset();
    expect((await new SavestateStore(storage).get(spread(77), 'k77'))?.value).toEqual(value(77));
    expect(storage.read).toBeLessThan(10);
    storage.reset();
    const fresh = new SavestateStore(storage);
    await fresh.put(spread(78), 'k78', { n: 1 });
    expect(storage.read).toBeLessThan(10);
    storage.reset();
    expect(await fresh.search([], { limit: 2 })).toHaveLength(2);
    expect(storage.read).toBeLessThan(5000); // where items are, but not what they are
    storage.reset();
    expect(await fresh.search(spread(79), { limit: 5, offset: 0 })).not.toEqual([]);
    const repeated = storage.read;
    expect(await fresh.search(spread(79), { limit: 5, offset: 0 })).not.toEqual([]);
    expect(storage.read).toBe(repeated);
  });

  test('[langgraph.15] what another store changed is read, and nothing else', async () => {
    const storage = new CountingStorage();
    const [one, two] = [new SavestateStore(storage), new SavestateStore(storage)];
    await fill(one, [0, 2000], spread);
    expect(await two.search(['users'], { filter: { n: 1999 } })).toHaveLength(1);
    await one.put(spread(5), 'k5', { n: 'changed' });
    storage.reset();
    expect(await two.search(['users'], { filter: { n: 'changed' } })).toHaveLength(1);
    expect(storage.read).toBeLessThan(10);
  });
});

test('[langgraph.15] a batch that changes nothing makes no checkpoint', async () => {
  const storage = new CountingStorage();
  const store = new SavestateStore(storage);
  await store.delete(['n'], 'absent');
  await store.put(['n'], 'k', { n: 1 });
  await store.delete(['n'], 'absent');
  await store.delete(['m'], 'absent');
  expect(storage.commits).toBe(1);
});

test('[langgraph.15] a store can be loaded and compared like any state, and nothing stored is out of reach', async () => {
  const storage = new CountingStorage();
  const store = new SavestateStore(storage);
  for (let n = 0; n < 140; n++) await store.put(['users', `u${n % 3}`], `k${n}`, value(n));
  for (let n = 40; n < 140; n++) await store.delete(['users', `u${n % 3}`], `k${n}`);
  for (let n = 0; n < 30; n++) await store.delete(['users', `u${n % 3}`], `k${n}`);
  await store.batch(['a', 'b', 'c'].map((key) => ({ namespace: ['small'], key, value: { key } })));
  await store.delete(['small'], 'b');
  const manager = new CheckpointManager({ storage, classes: langGraphClasses });
  const [head, before] = (await manager.list({ sessionId: 'lg-store/default' })).checkpoints;
  const { namespaces } = (await manager.load(head?.id ?? '')) as { namespaces: Map<string, { size: number }> };
  expect([...namespaces].map(([name, { size }]) => [name, size])).toEqual([
    ['["small"]', 2],
    ['["users","u0"]', 4],
    ['["users","u1"]', 3],
    ['["users","u2"]', 3],
  ]);
  const { removed, changedFields } = await manager.compare(before?.id ?? '', head?.id ?? '');
  expect(removed).toMatchObject([
    { path: expect.stringMatching(/items\.b$/), oldValue: { item: { value: { key: 'b' } } } },
  ]);
  expect(changedFields).toHaveLength(3);
  expect((await manager.verify()).findings).toEqual([]);
  expect((await manager.gc()).chunks).toBe(0);
});
