import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

describeOn(STORAGES)('every checkpoint is written in one way, on %s', (_, create) => {
  test('[save.8] a fork with an edit is a save: told of once, also if its answer was lost, and counted by retention', async () => {
    const { storage } = create();
    const plan = { commits: { 3: 'loses_reply' } } as const;
    const manager = new CheckpointManager({ storage: faultyStorage(storage, plan), retention: { maxCheckpoints: 4 } });
    const head = await (await manager.session('s')).save({ n: 0 });
    const told: string[] = [];
    manager.on('checkpoint_saved', ({ id }) => void told.push(id));
    const forks: string[] = [];
    for (let n = 1; n <= 6; n++) {
      const edit = () => ({ n });
      forks.push((await manager.fork(head, n % 2 === 0 ? { edit } : { edit, branch: `try-${n}` })).headId);
    }
    await manager.fork(head);
    expect(told).toEqual(forks);
    expect((await manager.list({ sessionId: 's' })).checkpoints.length).toBeLessThanOrEqual(4);
    await manager.close();
  });

  test('[save.5] a repeated save with the same key is stored once, also when the answer to the first got lost', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage: faultyStorage(storage, { commits: { 2: 'loses_reply' } }) });
    const told: number[] = [];
    manager.on('checkpoint_saved', ({ sequence }) => void told.push(sequence));
    const session = await manager.session('s');
    await session.save({ n: 1 });
    const first = await session.save({ n: 2 }, { idempotencyKey: 'turn-2' });
    const id = await session.save({ n: 2 }, { idempotencyKey: 'turn-2' });
    expect(id).toBe(first);
    expect(told).toEqual([1, 2, 2]);
    expect(session.head?.id).toBe(id);
    await session.save({ n: 3 });
    expect((await manager.stats()).checkpoints).toBe(3);
    expect(await manager.load(id)).toEqual({ n: 2 });
    await manager.close();
  });

  test('[save.5] a key that was used on another branch is refused, unless its save is in the history of this one', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const before = await manager.session('s');
    const one = await before.save({ n: 1 }, { idempotencyKey: 'turn-1' });
    const two = await before.save({ n: 2 }, { idempotencyKey: 'turn-2' });
    const { branch } = await manager.rewind(one);
    const session = await manager.session('s');
    await expect(session.save({ n: 2 }, { idempotencyKey: 'turn-2' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: { id: two },
      message: expect.stringContaining(`another branch, "main" and not "${branch}"`),
    });
    expect(await session.save({ n: 1 }, { idempotencyKey: 'turn-1' })).toBe(one);
    const again = await session.save({ n: 2 }, { idempotencyKey: 'turn-2 again' });
    expect(await session.save({ n: 1 }, { idempotencyKey: 'turn-1' })).toBe(one);
    expect([session.state, session.head?.id]).toEqual([{ n: 2 }, again]);
    await manager.close();
  });
});

test.each([Number.NaN, undefined, Number.POSITIVE_INFINITY, 1e18, -1, '2026', new Date(0)])(
  '[input.1] a clock that tells %s is refused before anything is stored',
  async (told) => {
    let now: unknown = 1000;
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: () => now as number });
    const session = await manager.session('s', { initial: { n: 0 } });
    await session.save();
    now = told;
    await expect(session.save({ n: 1 })).rejects.toThrow('now() must return milliseconds since 1970');
    now = 2000;
    await session.save({ n: 2 });
    expect((await manager.list({ sessionId: 's' })).checkpoints).toHaveLength(2);
    expect((await manager.verify()).status).toBe('clean');
  },
);
