import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { encrypted } from '../../src/storage/encryption/encrypted.ts';
import { Keyring } from '../../src/storage/encryption/keyring.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { storageContract } from '../../src/testing/storage-contract.ts';
import { freshSchema, postgresUrl } from '../support/postgres.ts';
import { SCRATCH_ROOT } from '../support/scratch-root.ts';

const keys = Keyring.create();
const schema = freshSchema();

const BELOW = {
  sqlite: (folder: string) => new SqliteCheckpointStorage({ path: join(folder, 'test.db') }),
  file: (folder: string) => new FileCheckpointStorage({ path: folder }),
  postgres: (tenant: string) =>
    new PostgresCheckpointStorage({ connectionString: postgresUrl(), schema, tenant, maxConnections: 5 }),
};

for (const [kind, openBelow] of Object.entries(BELOW)) {
  const folders = new Map<ChunkStorage, string>();
  const openAt = (folder: string): ChunkStorage => {
    const storage = encrypted(openBelow(folder), { keys });
    folders.set(storage, folder);
    return storage;
  };
  storageContract(`encrypted(${kind})`, {
    describe,
    test,
    open: async () => {
      if (kind === 'postgres') return openAt(`tenant ${randomUUID()}`);
      const folder = await mkdtemp(join(SCRATCH_ROOT, 'savestate-encrypted-'));
      return { storage: openAt(folder), dispose: () => rm(folder, { recursive: true }) };
    },
    reopen: async (storage) => {
      await storage.close();
      return openAt(folders.get(storage) ?? '');
    },
  });
}

storageContract('encrypted(memory) with several key names', {
  describe,
  test,
  open: async () =>
    encrypted(new InMemoryCheckpointStorage(), { keys: keys.add('other').add('other'), keyFor: () => 'other' }),
});
