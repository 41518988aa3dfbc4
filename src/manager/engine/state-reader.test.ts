import { expect, test } from 'vitest';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { StateReader } from './state-reader.ts';

class CountingStorage extends InMemoryCheckpointStorage {
  chunks = 0;

  override async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    this.chunks += digests.length;
    return super.readChunks(digests);
  }

  override async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    const chunks = await super.readReachable(digests);
    this.chunks += chunks.length;
    return chunks;
  }
}

function openReader() {
  const storage = new CountingStorage();
  const manager = new CheckpointManager({ storage });
  const reader = new StateReader(manager.engine);
  return { storage, manager, read: async (id: string) => reader.read(await manager.engine.repository.open(id)) };
}

function messages(count: number) {
  return Array.from({ length: count }, (_, n) => ({ role: 'user', content: `${n} ${'words '.repeat(50)}` }));
}

test('of the next state only what differs is read, and it is what load returns', async () => {
  const { storage, manager, read } = openReader();
  const session = await manager.session('long');
  const state = { messages: messages(3_000), notes: new Set([{ a: 1 }, { a: 1 }]), text: 'long '.repeat(50_000) };
  const first = await session.save(state);
  state.messages.push({ role: 'user', content: 'one more' });
  const second = await session.save(state);
  expect(await read(first)).toEqual(await manager.load(first));
  storage.chunks = 0;
  const found = (await read(second)) as typeof state;
  expect(storage.chunks).toBeLessThan(40);
  expect(found).toEqual(await manager.load(second));
});

test('what is known of one place is also read in another, nested deeper', async () => {
  const { manager, read } = openReader();
  const session = await manager.session('deeper');
  const list = messages(500);
  await read(await session.save({ list }));
  const id = await session.save({ drafts: { old: [list] }, list });
  expect(await read(id)).toEqual(await manager.load(id));
});

test('damage is told as load tells it', async () => {
  const { storage, manager, read } = openReader();
  const session = await manager.session('damaged');
  const id = await session.save({ messages: messages(500) });
  storage.readReachable = async () => [];
  await expect(read(id)).rejects.toMatchObject({ code: 'CORRUPT', message: await errorOf(manager.load(id)) });
});

function errorOf(failing: Promise<unknown>): Promise<string> {
  return failing.then(
    () => '',
    (error: Error) => error.message,
  );
}
