import { expect, test } from 'vitest';
import { describeOn, LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

/** In memory all 10,000 steps; elsewhere a commit takes longer, and what is left must be as little. */
const TURNS = { memory: 400, sqlite: 60, postgres: 25 } as const;
const STEPS = 25;
const BOUNDED = STORAGES.filter(([name]) => name in TURNS); // a folder keeps a small file for each entry of a log

describeOn(BOUNDED)('%s', (name, create) => {
  test('[retention.2] steps, forks and prunes without end leave what is kept and a bounded rest', LATER, async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const turns = TURNS[name as keyof typeof TURNS];
    for (let turn = 1; turn <= turns; turn++) {
      const steps = Array.from({ length: STEPS }, (_, n) => session.step('call', () => turn, { input: [turn, n] }));
      await Promise.all(steps);
      const head = await session.save({ turn });
      if (turn % 5 !== 0) continue;
      await manager.fork(head, { branch: `try ${turn}` });
      const attempt = await manager.session('s', { branch: `try ${turn}` });
      await attempt.save({ turn, tried: true });
      await attempt.close();
      await manager.deleteBranch('s', `try ${turn}`);
      await manager.prune({ policy: { keepLast: 3 } });
      await manager.dropRecordings('s');
    }
    await manager.gc();
    const { checkpoints, tombstones } = await storage.stats();
    const effects = await storage.readEffects({ sessionId: 's' });
    const refs = await storage.readRefs({ sessionId: 's' });
    expect({ checkpoints, effects: effects.length }).toEqual({ checkpoints: 3, effects: expect.any(Number) });
    expect(effects.length).toBeLessThanOrEqual(3 * STEPS);
    expect(tombstones).toBeLessThan(110);
    expect(refs.length).toBeLessThan(10);
    expect((await manager.verify()).findings).toEqual([]);
    expect(await (await manager.session('s')).step('call', () => 'new', { input: [0, 0] })).toBe('new');
    await manager.close();
  });
});
