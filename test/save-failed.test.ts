import { emptyCheckpoint } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import { SavestateSaver } from '../src/adapter/langgraph/saver/savestate-saver.ts';
import { SavestateStore } from '../src/adapter/langgraph/store/savestate-store.ts';
import { hasErrorCode } from '../src/core/errors.ts';
import { CheckpointManager } from '../src/manager/checkpoint-manager.ts';
import { Workers } from '../src/manager/workers/workers.ts';
import { type FaultPlan, faultyStorage } from '../src/testing/faulty-storage.ts';
import { STORAGES } from './support/storages.ts';

test.each(STORAGES)('[save.8] whatever save fails is told of as save_failed, on %s', async (_, create) => {
  const { storage } = create();
  const plan: FaultPlan = {};
  const manager = new CheckpointManager({ storage: faultyStorage(storage, plan) });
  const saver = new SavestateSaver({ manager });
  const store = new SavestateStore({ manager });
  const session = await manager.session('s');
  const head = await session.save({ n: 0 });
  const told: string[] = [];
  manager.on('save_failed', (error, { sessionId, branch }) => {
    told.push(`${sessionId} ${branch} ${hasErrorCode(error, 'INVALID_INPUT') ? 'invalid' : 'failed'}`);
  });
  plan.commits = new Proxy({}, { get: () => 'fails' });
  const put = (value: unknown) => {
    const config = { configurable: { thread_id: 't', checkpoint_ns: '' } };
    const checkpoint = { ...emptyCheckpoint(), channel_values: { value } };
    return saver.put(config, checkpoint, { source: 'input', step: -1, parents: {} }, { value: 1 });
  };
  const unsavable = () => 1;
  const saves = [
    () => session.save({ n: 1 }),
    () => session.save({ unsavable }),
    () => manager.fork(head, { edit: () => ({ n: 2 }), branch: 'other' }),
    () => manager.fork(head, { edit: () => ({ unsavable }) }),
    () => manager.rewind(head, { edit: () => ({ n: 2 }) }),
    () => put(1),
    () => put(unsavable),
    () => store.put(['a'], 'b', { n: 1 }),
    () => store.put(['a'], 'b', { unsavable }),
    () => new Workers(manager).saveGroup([{ name: 'a', agent: { id: 'member' } }], { groupId: 'team' }),
  ];
  for (const save of saves) await expect(save()).rejects.toThrow();
  await expect(manager.fork(head)).rejects.toThrow(); // stores no checkpoint
  expect(told).toEqual([
    's main failed',
    's main invalid',
    's other failed',
    's fork-1 invalid',
    's rewind-1 failed',
    'lg/t main failed',
    'lg/t main invalid',
    'lg-store/default main failed',
    'lg-store/default main invalid',
    'member main failed',
    'team main failed',
  ]);
  await manager.close();
});
