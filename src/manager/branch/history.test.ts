import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

test('[durability.2] a tree without a head or parent that is stored is CORRUPT, as a damaged index makes it', async () => {
  for (const hidden of [0, 1, 2]) {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const ids = [await session.save({ n: 1 }), await session.save({ n: 2 }), await session.save({ n: 3 })];
    const listCheckpoints = storage.listCheckpoints.bind(storage);
    storage.listCheckpoints = async (query) => (await listCheckpoints(query)).filter(({ id }) => id !== ids[hidden]);
    await expect(manager.tree('s')).rejects.toMatchObject({ code: 'CORRUPT', details: { id: ids[hidden] } });
  }
});
