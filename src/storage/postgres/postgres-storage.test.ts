import { randomUUID } from 'node:crypto';
import { describe, test } from 'vitest';
import { freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { storageContract } from '../../testing/storage-contract.ts';
import type { ChunkStorage } from '../contract.ts';
import { PostgresCheckpointStorage } from './postgres-storage.ts';

const schema = freshSchema();
const tenants = new Map<ChunkStorage, string>();

/** Each test is a tenant of its own, beside the rows of all others. */
function openAs(tenant: string): PostgresCheckpointStorage {
  const storage = new PostgresCheckpointStorage({ connectionString: postgresUrl(), schema, tenant, maxConnections: 5 });
  tenants.set(storage, tenant);
  return storage;
}

storageContract('PostgresCheckpointStorage', {
  describe,
  test,
  open: async () => openAs(`tenant ${randomUUID()}`),
  reopen: async (storage) => {
    await storage.close();
    return openAs(tenants.get(storage) ?? '');
  },
});
