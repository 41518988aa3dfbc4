import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import { describeLater } from '../../../test/support/later.ts';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { storageContract } from '../../testing/storage-contract.ts';
import type { ChunkStorage } from '../contract.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

for (const compress of [false, true]) {
  const paths = new Map<ChunkStorage, string>();
  const openAt = (path: string) => {
    const storage = new SqliteCheckpointStorage({ path, compress });
    paths.set(storage, path);
    return storage;
  };
  storageContract(`SqliteCheckpointStorage, ${compress ? 'compressed' : 'plain'},`, {
    describe: compress ? describeLater : describe,
    test,
    open: async () => {
      const folder = await mkdtemp(join(SCRATCH_ROOT, 'savestate-sqlite-'));
      return { storage: openAt(join(folder, 'test.db')), dispose: () => rm(folder, { recursive: true }) };
    },
    reopen: async (storage) => {
      await storage.close();
      return openAt(paths.get(storage) ?? '');
    },
  });
}
