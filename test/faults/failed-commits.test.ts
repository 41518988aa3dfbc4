import { describe, expect, test } from 'vitest';
import { StorageError } from '../../src/core/errors.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { type FaultPlan, faultyStorage } from '../../src/testing/faulty-storage.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { isSameValue } from '../support/same-value.ts';
import { STORAGES } from '../support/storages.ts';
import { trials } from '../support/trials.ts';
import { conversationOf, messageOf } from './children/states.mjs';

describe.each(STORAGES)('commits that fail, on %s', (kind, create) => {
  function setUp() {
    const plan: FaultPlan = {};
    const storage = create().storage;
    return { plan, manager: new CheckpointManager({ storage: faultyStorage(storage, plan) }), storage };
  }

  test('[save.4] a save whose commit failed leaves no trace, and the next one stands on the last good one', async () => {
    const { plan, manager } = setUp();
    const failures: unknown[] = [];
    manager.on('save_failed', (error) => failures.push(error));
    const session = await manager.session('s');
    const first = await session.save(conversationOf(10));
    plan.commits = { 2: 'fails', 3: 'fails' };
    await expect(session.save(conversationOf(20))).rejects.toMatchObject({ code: 'STORAGE' });
    expect(session.head?.id).toBe(first);
    expect((await manager.list({ sessionId: 's' })).checkpoints).toHaveLength(1);
    await expect(session.save(conversationOf(21))).rejects.toMatchObject({ code: 'STORAGE' });
    // The chunks of both failed saves were never stored; this one refers to them.
    const next = await session.save(conversationOf(22));
    expect(isSameValue(await manager.load(next), conversationOf(22))).toBe(true);
    expect(await manager.get(next)).toMatchObject({ parentId: first, sequence: 2 });
    expect(failures).toHaveLength(2);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 2 });
    await manager.close();
  });

  test('[save.4] saves in a row are independent: one fails, those behind it stand on the last good one', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s');
    await session.save(conversationOf(1));
    plan.commits = { 3: 'fails' };
    const saves = [2, 3, 4, 5].map((count) => session.save(conversationOf(count)));
    const settled = await Promise.allSettled(saves);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(isSameValue((await manager.session('s')).state, conversationOf(5))).toBe(true);
    expect(session.head?.sequence).toBe(4);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 4 });
    await manager.close();
  });

  test('[save.5] a save whose reply was lost is stored once when it is repeated with its key, and the session goes on', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s');
    await session.save(conversationOf(3));
    plan.commits = { 2: 'loses_reply' };
    plan.delay = (method) => (method === 'readCheckpoint' ? Promise.reject(new StorageError('Away.')) : undefined);
    const save = () => session.save(conversationOf(9), { idempotencyKey: 'turn-9' });
    await expect(save()).rejects.toMatchObject({ code: 'STORAGE' });
    plan.delay = () => undefined;
    const repeated = await save();
    expect(session.head?.id).toBe(repeated);
    expect(await save()).toBe(repeated);
    const next = await session.save(conversationOf(12));
    expect(await manager.get(next)).toMatchObject({ parentId: repeated, sequence: 3 });
    expect(isSameValue(await manager.load(next), conversationOf(12))).toBe(true);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  });

  test('[save.5] without a key, it looks itself, and the next save stands on it', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s');
    await session.save(conversationOf(3));
    plan.commits = { 2: 'loses_reply' };
    const found = await session.save(conversationOf(4));
    const next = await session.save(conversationOf(5));
    expect(await manager.get(next)).toMatchObject({ parentId: found, sequence: 3 });
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  });

  test('[save.4] a step whose result could not be stored is not finished: it runs again, with the same key', async () => {
    const { plan, manager } = setUp();
    const session = await manager.session('s');
    const keys: string[] = [];
    const run = ({ idempotencyKey }: { idempotencyKey: string }) => {
      keys.push(idempotencyKey);
      return messageOf(4);
    };
    plan.commits = { 2: 'fails' };
    await expect(session.step('call', run)).rejects.toMatchObject({ code: 'STORAGE' });
    const again = await manager.session('s');
    expect(await again.step('call', run)).toEqual(messageOf(4));
    expect(keys).toHaveLength(2);
    expect(keys[0]).toBe(keys[1]);
    expect(await manager.verify()).toMatchObject({ status: 'clean', effects: 1 });
    await manager.close();
  });

  test('[save.4] whatever commits fail, every acknowledged checkpoint is whole and the rest never was', async () => {
    const random = seededRandom();
    const faults: string[] = [];
    const runs = trials(150);
    for (let run = 0; run < runs; run++) {
      const { plan, manager } = setUp();
      const commits: Record<number, 'fails' | 'loses_reply'> = {};
      for (let nth = 1; nth <= 40; nth++)
        if (random.below(3) === 0) commits[nth] = random.below(2) === 0 ? 'fails' : 'loses_reply';
      plan.commits = commits;
      const session = await manager.session('s', { onConflict: 'branch' });
      const picks: number[] = [];
      for (let turn = 0; turn < 20; turn++) {
        if (random.below(4) === 0) picks.splice(random.below(picks.length + 1), 1 + random.below(5));
        picks.splice(random.below(picks.length + 1), 0, random.below(100));
        const state = { picks: [...picks], messages: picks.map(messageOf) };
        const options = { idempotencyKey: `turn-${turn}` };
        let id = await session.save(state, options).catch(() => undefined);
        id ??= await session.save(state, options).catch(() => undefined);
        if (id === undefined) continue;
        if (!isSameValue(await manager.load(id), state))
          faults.push(`run ${run} turn ${turn}: ${id} has another state`);
      }
      const { findings } = await manager.verify();
      faults.push(...findings.map(({ subject, problem }) => `run ${run}: ${subject}: ${problem}`));
      await manager.close();
    }
    reportFaults(`failing commits on ${kind}`, { trials: runs, failures: faults, notes: `seed=${random.seed}` });
    expect(faults).toEqual([]);
  });
});
