import { expect, test } from 'vitest';
import type { SessionId } from '../../core/record/id.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

/** Counts the refs that are read. */
class CountingStorage extends InMemoryCheckpointStorage {
  refsRead = 0;

  override async readRefs(...filter: Parameters<InMemoryCheckpointStorage['readRefs']>) {
    const refs = await super.readRefs(...filter);
    this.refsRead += refs.length;
    return refs;
  }
}

test('[session.1] opening a session reads as much with many tags as with one', async () => {
  const storage = new CountingStorage();
  const manager = new CheckpointManager({ storage });
  const id = await (await manager.session('s')).save({ n: 1 });
  const counts: number[] = [];
  for (const tags of [1, 300]) {
    for (let n = 0; n < tags; n++) await manager.tag(id, `${tags}-${n}`);
    storage.refsRead = 0;
    const other = new CheckpointManager({ storage });
    await (await other.session('s')).save({ n: tags });
    counts.push(storage.refsRead);
  }
  expect(counts[1]).toBe(counts[0]);
  await manager.close();
});

test.each([true, false])(
  '[session.5] a session that is deleted while it is opened is no damage (saved: %s)',
  async (isSaved) => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    await session.step('call', () => 'result');
    if (isSaved) await session.save({ n: 1 });
    await session.step('call', () => 'another');
    await session.close();
    const readEffects = storage.readEffects.bind(storage);
    storage.readEffects = async (filter) => {
      storage.readEffects = readEffects;
      await storage.deleteSession('s' as SessionId);
      return readEffects(filter);
    };
    await expect(manager.session('s')).rejects.toMatchObject({ code: 'CONFLICT', details: { sessionId: 's' } });
    expect((await manager.session('s')).isResumed).toBe(false);
    await manager.close();
  },
);

test('[session.5] a session whose steps a damaged index hides is CORRUPT', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  await session.save({ n: 1 });
  await session.step('call', () => 'result');
  await session.close();
  storage.readEffects = async () => [];
  await expect(manager.session('s')).rejects.toMatchObject({ code: 'CORRUPT' });
});
