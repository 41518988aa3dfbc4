import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { countNewBytes } from './new-bytes.ts';
import { Scale } from './scale.ts';

test('what a state has that its parent does not weighs what a scale says, and reading it follows the change', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('report');
  const messages = Array.from({ length: 2_000 }, (_, n) => ({
    role: 'user',
    content: `Message ${n} ${'x'.repeat(200)}`,
  }));
  const ids = [await session.save({ messages })];
  ids.push(await session.save({ messages: [...messages, { role: 'user', content: 'One more.' }] }));
  const scale = new Scale(storage);
  const roots = [];
  const weights = [];
  for (const id of ids) {
    weights.push(await scale.add(await manager.open(id)));
    roots.push((await manager.engine.repository.open(id)).root);
  }
  const [before, after] = roots;
  if (before === undefined || after === undefined) throw new Error('Two states were saved');
  let chunks = 0;
  const counting = Object.create(storage, {
    readChunks: {
      value: async (digests: Parameters<typeof storage.readChunks>[0]) => {
        chunks += digests.length;
        return storage.readChunks(digests);
      },
    },
  }) as typeof storage;
  expect(await countNewBytes(counting, before, after)).toBe(weights[1]);
  expect(chunks).toBeLessThan(10);
  expect(await countNewBytes(storage, undefined, before)).toBe(weights[0]);
  expect(await countNewBytes(storage, after, after)).toBe(0);
});
