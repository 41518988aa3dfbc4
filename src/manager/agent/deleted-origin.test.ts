import { expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

class Clerk {
  agentId = 'clerk';
  userId = 'ann';
  notes = Array.from({ length: 200 }, (_, at) => `note ${at} ${'x'.repeat(80)}`);
}

test.each(STORAGES)(
  '[restore.1] on %s an agent is saved anew when its session was deleted after a restore',
  async (_, create) => {
    const manager = new CheckpointManager({ storage: create().storage });
    const clerk = new Clerk();
    const id = await manager.save(clerk);
    await manager.restore(id, { into: clerk });
    await manager.clearUserHistory('ann');
    clerk.notes.push('after');
    const again = await manager.save(clerk);
    await manager.save(clerk);
    const back = await manager.restore(again, { factory: () => new Clerk() });
    expect(back).toEqual(clerk);
    expect((await manager.verify({ readData: true })).status).toBe('clean');
    await manager.close();
  },
);

test('[restore.1] a checkpoint that was pruned after its restore is named, and a session of its own helps', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const clerk = new Clerk();
  const id = await manager.save(clerk);
  for (const note of ['one', 'two']) {
    clerk.notes.push(note);
    await manager.save(clerk);
  }
  const old = (await manager.restore(id, { factory: () => new Clerk() })) as Clerk;
  await manager.prune({ policy: { keepLast: 1 } });
  await expect(manager.save(old)).rejects.toMatchObject({ code: 'CONFLICT', details: { checkpointId: id } });
  await manager.save(old, { sessionId: 'of its own' });
  expect((await manager.verify({ readData: true })).status).toBe('clean');
  await manager.close();
});
