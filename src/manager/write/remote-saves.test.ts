import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { postgresUrl } from '../../../test/support/postgres.ts';
import type { CheckpointWatcher } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { PostgresCheckpointStorage } from '../../storage/postgres/postgres-storage.ts';
import { wrapStorage } from '../../storage/wrap.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

function openManager(tenant: string, onHandlerError?: (error: unknown) => void): CheckpointManager {
  const storage = new PostgresCheckpointStorage({ connectionString: postgresUrl(), schema: 'test_shared', tenant });
  const manager = new CheckpointManager({ storage, ...(onHandlerError !== undefined && { onHandlerError }) });
  onTestFinished(() => manager.close());
  return manager;
}

test('[save.9] a handler for everywhere is told of own and foreign saves, each once, until it stops', async () => {
  const tenant = randomUUID();
  const [here, there] = [openManager(tenant), openManager(tenant)];
  const told: string[] = [];
  const stop = here.on('checkpoint_saved', ({ id }) => void told.push(id), { from: 'everywhere' });
  await stop.ready;
  const [own, foreign] = [await here.session('own'), await there.session('foreign')];
  const saved: string[] = [];
  for (let turn = 0; turn < 10; turn++) saved.push(await own.save({ turn }), await foreign.save({ turn }));
  await expect.poll(() => told.length).toBe(20);
  expect(told.toSorted()).toEqual(saved.toSorted());
  stop();
  await foreign.save({ last: true });
  await own.save({ last: true });
  await expect.poll(async () => (await here.list({}, { limit: 50 })).checkpoints.length).toBe(22);
  expect(told).toHaveLength(20);
});

test('[save.9] what a storage tells of after the stop is not passed on', async () => {
  const storage = new InMemoryCheckpointStorage();
  const watchers: CheckpointWatcher[] = [];
  const watch = async (watcher: CheckpointWatcher) => {
    watchers.push(watcher);
    return { close: async () => undefined };
  };
  const manager = new CheckpointManager({ storage: wrapStorage(storage, { watch }) });
  const told: string[] = [];
  const stop = manager.on('checkpoint_saved', ({ id }) => void told.push(id), { from: 'everywhere' });
  await stop.ready;
  await (await new CheckpointManager({ storage }).session('foreign')).save({ turn: 1 });
  const rows = await storage.listCheckpoints({ limit: 1 });
  stop();
  for (const { onCheckpoints } of watchers) onCheckpoints(rows);
  await manager.close();
  expect(told).toEqual([]);
});

test('[save.9] only saves are told of from everywhere', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const message =
    'The event of on() with { from: \'everywhere\' } must be one of "checkpoint_saved"; found "save_failed"';
  expect(() => manager.on('save_failed' as never, () => 1, { from: 'everywhere' })).toThrow(message);
});

test('[save.9] a handler that throws is reported, and the next ones are told', async () => {
  const tenant = randomUUID();
  const errors: unknown[] = [];
  const [here, there] = [openManager(tenant, (error) => errors.push(error)), openManager(tenant)];
  let calls = 0;
  const stop = here.on(
    'checkpoint_saved',
    () => {
      calls++;
      throw new Error('not today');
    },
    { from: 'everywhere' },
  );
  await stop.ready;
  const foreign = await there.session('foreign');
  await foreign.save({ turn: 1 });
  await foreign.save({ turn: 2 });
  await expect.poll(() => calls).toBe(2);
  await expect.poll(() => errors.map(String)).toEqual(['Error: not today', 'Error: not today']);
});

test('[save.9] a storage that cannot tell says so', () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  expect(() => manager.on('checkpoint_saved', () => undefined, { from: 'everywhere' })).toThrow(
    expect.objectContaining({ code: 'UNSUPPORTED' }),
  );
});
