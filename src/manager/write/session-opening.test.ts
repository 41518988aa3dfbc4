import { expect, test } from 'vitest';
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
