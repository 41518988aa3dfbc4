import { randomUUID } from 'node:crypto';
import { onTestFinished } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import type { PostgresStorageOptions } from '../../src/storage/postgres/schema/postgres-connection.ts';
import { postgresUrl } from './postgres.ts';
import { proxyTargetOf, TcpProxy } from './tcp-proxy.ts';

/** A tenant that is reached by way of a proxy, and directly. */
export type ProxiedPostgres = {
  readonly proxy: TcpProxy;
  readonly storage: PostgresCheckpointStorage;
  readonly manager: CheckpointManager;
  /** Sees what is there, whatever the proxy does. */
  readonly observer: CheckpointManager;
  readonly observed: PostgresCheckpointStorage;
};

type ProxiedOptions = Omit<PostgresStorageOptions, 'tenant' | 'connectionString' | 'pool'> & {
  /** Default: the server all tests share. */
  readonly url?: string;
};

/** A new tenant behind a proxy of its own; all of it is closed with the test. The storage is open already. */
export async function openProxied({ url = postgresUrl(), ...options }: ProxiedOptions): Promise<ProxiedPostgres> {
  const tenant = randomUUID();
  const proxy = await TcpProxy.listen({ target: proxyTargetOf(url) });
  const storage = new PostgresCheckpointStorage({ ...options, connectionString: proxy.urlFor(url), tenant });
  const { schema } = options;
  const observed = new PostgresCheckpointStorage({
    connectionString: url,
    tenant,
    maxConnections: 2,
    ...(schema !== undefined && { schema }),
  });
  onTestFinished(async () => {
    await Promise.all([storage.close(), observed.close()]);
    await proxy.close();
  });
  await observed.open();
  await storage.open();
  const manager = new CheckpointManager({ storage });
  return { proxy, storage, manager, observed, observer: new CheckpointManager({ storage: observed }) };
}
