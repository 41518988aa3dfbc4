import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../../test/support/trials.ts';
import { type Chunk, createChunk, type Digest } from '../../../core/tree/chunk.ts';
import { Repository } from '../../../manager/engine/repository.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { StoreChunks } from './store-chunks.ts';
import { StoreTrie } from './store-trie.ts';

const REF = createChunk({ text: '1', refs: [] }).digest;

test('[langgraph.15] a trie holds what was put, whatever was put and deleted before, and shrinks to nothing', async () => {
  const keys = fc.integer({ min: 0, max: 120 }).map((n) => `k${n}`);
  const change = fc.tuple(
    keys,
    fc.oneof({ weight: 3, arbitrary: fc.nat() }, { arbitrary: fc.constant(undefined), weight: 2 }),
  );
  const batches = fc.array(fc.array(change, { minLength: 1, maxLength: 60 }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(batches, async (given) => {
      const { trie, update } = create();
      const model = new Map<string, number>();
      let root: Digest | undefined;
      for (const batch of given) {
        root = await update(root, batch);
        for (const [key, n] of batch) {
          if (n === undefined) model.delete(key);
          else model.set(key, n);
        }
        const [found = []] = root === undefined ? [] : await trie.list([root]);
        expect(new Map(found.map(({ key, at }) => [key, at]))).toEqual(model);
        for (const key of ['k0', 'k7', 'k77']) expect((await trie.find(root, key))?.at).toBe(model.get(key));
      }
      expect(
        await update(
          root,
          [...model.keys()].map((key) => [key, undefined]),
        ),
      ).toBeUndefined();
    }),
    drawn(600),
  );
});

function create() {
  const chunks = new StoreChunks(new Repository(new InMemoryCheckpointStorage()));
  const trie = new StoreTrie(chunks, 'value');
  const update = async (root: Digest | undefined, batch: readonly (readonly [string, number | undefined])[]) => {
    const written = new Map<Digest, Chunk>();
    const changes = new Map(batch.map(([key, n]) => [key, n === undefined ? undefined : { at: n, ref: REF }]));
    const next = await trie.update(root, changes, written);
    chunks.keep(written.values());
    return next;
  };
  return { trie, update };
}
