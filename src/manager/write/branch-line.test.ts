import { expect, test } from 'vitest';
import { z } from 'zod';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { StorageError } from '../../core/errors.ts';
import { type FaultPlan, faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';

describeOn(STORAGES)('saves and steps without an answer, on %s', (_, create) => {
  function setUp() {
    const plan: FaultPlan = {};
    const { storage } = create();
    return { plan, manager: new CheckpointManager({ storage: faultyStorage(storage, plan) }), storage };
  }

  const longState = (count: number) => ({ lines: Array.from({ length: count }, (_, i) => `line ${i} `.repeat(40)) });

  /** Until it comes back nobody can look whether a commit was stored. */
  function goAway(plan: FaultPlan) {
    plan.delay = (method) =>
      method === 'readCheckpoint' ? Promise.reject(new StorageError('The storage is away.')) : undefined;
    const comeBack = () => {
      plan.delay = () => undefined;
    };
    return { comeBack };
  }

  test('[save.5] a save that got no answer looks for itself: one that is there is saved, and told of', async () => {
    const { plan, manager } = setUp();
    const told: string[] = [];
    manager.on('checkpoint_saved', ({ id }) => void told.push(id));
    const session = await manager.session('s');
    plan.commits = { 1: 'loses_reply', 2: 'loses_request' };
    const first = await session.save({ n: 1 });
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'STORAGE', details: { outcome: 'unknown' } });
    const third = await session.save({ n: 3 });
    expect(await manager.get(third)).toMatchObject({ parentId: first, sequence: 2 });
    expect(told).toEqual([first, third]);
    await manager.close();
  });

  test('[save.5] one that was stored, and could not be looked for, is what the next save stands on', async () => {
    const { plan, manager } = setUp();
    const told: number[] = [];
    manager.on('checkpoint_saved', ({ sequence }) => void told.push(sequence));
    const session = await manager.session('s');
    const first = await session.save(longState(40));
    plan.commits = { 2: 'loses_reply' };
    const { comeBack } = goAway(plan);
    await expect(session.save(longState(80))).rejects.toMatchObject({
      code: 'STORAGE',
      details: { outcome: 'unknown' },
    });
    comeBack();
    const third = await session.save(longState(120));
    const path = await manager.pathToRoot(third);
    expect(path.map(({ checkpoint }) => checkpoint?.sequence)).toEqual([3, 2, 1]);
    expect(told).toEqual([1, 2, 3]);
    expect(path.at(-1)?.id).toBe(first);
    expect(await manager.load(path[1]?.id ?? '')).toEqual(longState(80));
    await manager.gc();
    expect(await manager.load(third)).toEqual(longState(120));
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  });

  test('[save.5] one that arrives after the look is what the next save stands on', async () => {
    const { plan, manager, storage } = setUp();
    const session = await manager.session('s');
    await session.save({ n: 1 });
    const commit = storage.commit.bind(storage);
    let arrive = (): Promise<unknown> => Promise.resolve();
    storage.commit = (sent) => {
      arrive = () => commit(sent);
      return Promise.reject(new StorageError('No answer came.', { details: { outcome: 'unknown' } }));
    };
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ details: { outcome: 'unknown' } });
    storage.commit = commit;
    plan.delay = async (method) => {
      const arriving = arrive;
      if (method !== 'commit') return;
      arrive = () => Promise.resolve();
      await arriving();
    };
    const third = await session.save({ n: 3 });
    expect(await manager.get(third)).toMatchObject({ sequence: 3 });
    await manager.close();
  });

  test('[save.5] one that was not stored leaves no trace', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s');
    await session.save(longState(40));
    plan.commits = { 2: 'loses_request', 3: 'loses_reply', 4: 'loses_request' };
    const saves = [80, 120, 160].map((count) => session.save(longState(count)).catch(() => 'unknown'));
    expect(await Promise.all(saves)).toEqual(['unknown', expect.stringMatching('chk_'), 'unknown']);
    expect(await session.step('next', () => 1)).toBe(1);
    expect(session.head?.sequence).toBe(2);
    const last = await session.save(longState(200));
    expect(await manager.get(last)).toMatchObject({ sequence: 3 });
    await manager.gc();
    expect(await manager.load(last)).toEqual(longState(200));
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  });

  test('[save.5] a step finds out as well', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s');
    await session.save({ n: 1 });
    plan.commits = { 2: 'loses_reply' };
    const { comeBack } = goAway(plan);
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'STORAGE' });
    comeBack();
    expect(await session.step('next', () => 1)).toBe(1);
    expect(session.head?.sequence).toBe(2);
    await manager.close();
  });

  test('[save.5] a key still makes it stored once, and a session of its own branch goes on from it', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s', { onConflict: 'branch' });
    plan.commits = { 1: 'loses_reply' };
    const { comeBack } = goAway(plan);
    const save = () => session.save({ n: 1 }, { idempotencyKey: 'once' });
    await expect(save()).rejects.toMatchObject({ code: 'STORAGE' });
    comeBack();
    const id = await save();
    expect(session.head?.id).toBe(id);
    await session.save({ n: 2 });
    expect(session).toMatchObject({ branch: 'main', head: { sequence: 2 } });
    await manager.close();
  });
});

describeOn(STORAGES)('a save that is given up before its commit, on %s', (_, create) => {
  const limited = z.object({ n: z.number().max(5), lines: z.array(z.string()).optional() });
  const lines = Array.from({ length: 3000 }, (_, n) => `line ${n}`);
  const givenUp: readonly [string, (session: Session<z.infer<typeof limited>>) => Promise<unknown>][] = [
    ['its schema refuses', (session) => session.save({ n: 9, lines })],
    ['what it waits for fails', (session) => session.save({ n: 2, lines }, { after: Promise.reject(new Error('no')) })],
    [
      'builds on one that is refused',
      (session) => {
        const refused = session.update((state) => ({ ...state, n: 9 }));
        const next = session.update((state) => ({ ...state, n: 3, lines }));
        return Promise.all([refused, next]);
      },
    ],
  ];

  test.each(givenUp)('[save.4] because %s leaves out nothing of the next one', async (_why, giveUp) => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s', { schema: limited, initial: { n: 0 } });
    await session.save({ n: 1 });
    await expect(giveUp(session)).rejects.toThrow();
    await session.save({ n: 4, lines });
    expect(await session.load('@')).toEqual({ n: 4, lines });
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    await manager.close();
  });
});
