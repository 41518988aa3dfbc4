import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
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

test('[storage.6] a state with more chunks than one statement returns is read in several', LATER, async () => {
  const manager = new CheckpointManager({ storage: openAs(`tenant ${randomUUID()}`) });
  onTestFinished(() => manager.close());
  const documents = Array.from({ length: 12_000 }, (_, n) => ({ n, text: `document ${n} `.repeat(6) }));
  const id = await manager.save({ documents });
  expect(await manager.load(id)).toEqual({ documents });
});
