import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { proxyTargetOf, TcpProxy } from '../../../test/support/tcp-proxy.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { CheckpointRow, StorageWatch } from '../contract.ts';
import { PostgresCheckpointStorage } from './postgres-storage.ts';

const schema = freshSchema();

function openAs(tenant: string, connectionString = postgresUrl()): PostgresCheckpointStorage {
  const storage = new PostgresCheckpointStorage({ connectionString, schema, tenant, maxConnections: 5 });
  onTestFinished(() => storage.close());
  return storage;
}

/** What a watcher was told, in order, and a way to wait for a certain number. */
class Told {
  readonly ids: CheckpointId[] = [];
  readonly errors: unknown[] = [];
  #wake: () => void = () => undefined;

  readonly watcher = {
    onCheckpoints: (rows: readonly CheckpointRow[]) => {
      this.ids.push(...rows.map(({ id }) => id));
      this.#wake();
    },
    onError: (error: unknown) => void this.errors.push(error),
  };

  async until(count: number): Promise<readonly CheckpointId[]> {
    while (this.ids.length < count)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    return this.ids;
  }
}

async function watch(storage: PostgresCheckpointStorage): Promise<Told & { stop: StorageWatch }> {
  const told = new Told();
  return Object.assign(told, { stop: await storage.watch(told.watcher) });
}

async function saveMany(storage: PostgresCheckpointStorage, sessionId: string, count: number): Promise<string[]> {
  const session = await new CheckpointManager({ storage }).session(sessionId);
  const ids: string[] = [];
  for (let number = 0; number < count; number++) ids.push(await session.save({ number }));
  return ids;
}

test('[save.9] a watcher is told of what others store, each once, and each session in its order', async () => {
  const tenant = randomUUID();
  const before = await saveMany(openAs(tenant), 'earlier', 3);
  const told = await watch(openAs(tenant));
  const writers = Array.from({ length: 8 }, () => openAs(tenant));
  const saved = await Promise.all(writers.map((writer, at) => saveMany(writer, `session-${at}`, 20)));
  const ids = await told.until(160);
  expect(ids.toSorted()).toEqual(saved.flat().toSorted());
  expect(ids).not.toContain(before[0]);
  for (const own of saved) expect(ids.filter((id) => own.includes(id))).toEqual(own);
});

test('[save.9] nothing of another tenant is told, and nothing after closing', async () => {
  const [mine, theirs] = [randomUUID(), randomUUID()];
  const storage = openAs(mine);
  const told = await watch(storage);
  await saveMany(openAs(theirs), 's', 3);
  const own = await saveMany(storage, 's', 1);
  expect(await told.until(1)).toEqual(own);
  await told.stop.close();
  await told.stop.close();
  await saveMany(storage, 's', 1);
  expect(told.ids).toEqual(own);
});

test('[save.9] what is stored while the connection is away is told when it is back', async () => {
  const tenant = randomUUID();
  const proxy = await TcpProxy.listen({ target: proxyTargetOf(postgresUrl()) });
  onTestFinished(() => proxy.close());
  const told = await watch(openAs(tenant, proxy.urlFor(postgresUrl())));
  const writer = openAs(tenant);
  const saved = await saveMany(writer, 's', 2);
  await told.until(2);
  proxy.refuse(true);
  proxy.cut('reset');
  saved.push(...(await saveMany(writer, 't', 10)));
  proxy.refuse(false);
  expect(await told.until(12)).toEqual(saved);
});

test('[save.9] what a transaction stores that was open all the while is told when it ends', async () => {
  const tenant = randomUUID();
  const storage = openAs(tenant);
  await saveMany(storage, 'source', 1);
  const told = await watch(storage);
  const slow = await adminClient();
  await slow.query('BEGIN');
  const copied = await slow.query(
    `INSERT INTO "${schema}".checkpoint(tenant, id, session, timestamp_ms, branch, type, digest, body, root_text)
     SELECT tenant, 'chk_0000000000000000000001', session, timestamp_ms, branch, type, digest, body, root_text FROM "${schema}".checkpoint WHERE tenant = $1 RETURNING id`,
    [tenant],
  );
  // Others come and go, and are told, with greater numbers than the one that is still open.
  const saved = await saveMany(storage, 'fast', 5);
  expect(await told.until(5)).toEqual(saved);
  await slow.query('COMMIT');
  await saveMany(storage, 'fast-too', 1);
  expect((await told.until(7)).filter((id) => id === copied.rows[0].id)).toHaveLength(1);
});

test('[postgres.4] commits notify only while somebody listens', async () => {
  const tenant = randomUUID();
  const storage = openAs(tenant);
  await storage.commit({ sessionId: 's' as SessionId });
  const listener = await adminClient();
  const heard: string[] = [];
  listener.on('notification', ({ channel }) => heard.push(channel));
  const { rows } = await listener.query(`SELECT "${schema}".channel($1) AS channel`, [tenant]);
  await listener.query(`LISTEN ${rows[0].channel}`);
  await saveMany(storage, 's', 3);
  await listener.query('SELECT 1');
  expect(heard).toEqual([]);
  const told = await watch(storage);
  await expect.poll(async () => (await saveMany(storage, randomUUID(), 1)) && heard.length).toBeGreaterThan(0);
  await told.stop.close();
  await expect
    .poll(async () => {
      const count = heard.length;
      await saveMany(storage, randomUUID(), 1);
      await listener.query('SELECT 1');
      return heard.length - count;
    })
    .toBe(0);
});
