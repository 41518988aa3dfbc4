import { expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

const LONG = 'long '.repeat(200);

async function collect(lines: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const line of lines) found.push(line);
  return found;
}

test.each(STORAGES)(
  '[session.4] an export on %s whose session is deleted meanwhile is no damage',
  async (_, create) => {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await manager.session('s');
    await session.save({ n: 1 });
    const lines = manager.exportSession('s');
    await lines.next();
    await manager.deleteSession('s');
    await expect(collect(lines)).rejects.toMatchObject({ code: 'CONFLICT', details: { sessionId: 's' } });
    await manager.close();
  },
);

test('[session.4] an export whose checkpoint is deleted and collected before its chunks are read is no damage', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  const id = await session.save({ text: LONG });
  await session.save({ text: '' });
  const readChunks = storage.readChunks.bind(storage);
  storage.readChunks = async (digests) => {
    storage.readChunks = readChunks;
    await manager.delete(id);
    await manager.gc();
    return readChunks(digests);
  };
  await expect(collect(manager.exportSession('s'))).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(await collect(manager.exportSession('s'))).not.toEqual([]);
});

test.each(STORAGES)(
  '[session.4] an export on %s whose head is deleted meanwhile, with its user, is refused and not written damaged',
  async (_, create) => {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await manager.session('s');
    await session.save({ n: 1 }, { userId: 'bob' });
    await session.save({ n: 2 }, { userId: 'ann' });
    const lines = manager.exportSession('s');
    await lines.next();
    await manager.clearUserHistory('ann');
    await expect(collect(lines)).rejects.toMatchObject({ code: 'CONFLICT', details: { sessionId: 's' } });
    expect(await collect(manager.exportSession('s'))).not.toEqual([]);
    await manager.close();
  },
);

test('[session.4] an export that misses a checkpoint which nobody deleted is CORRUPT', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  await (await manager.session('s')).save({ n: 1 });
  storage.readCheckpoint = async () => undefined;
  await expect(collect(manager.exportSession('s'))).rejects.toMatchObject({ code: 'CORRUPT' });
});
