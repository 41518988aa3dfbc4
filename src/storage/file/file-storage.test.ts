import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { storageContract } from '../../testing/storage-contract.ts';
import type { ChunkStorage } from '../contract.ts';
import { FileCheckpointStorage } from './file-storage.ts';

const paths = new Map<ChunkStorage, string>();

function openAt(path: string): FileCheckpointStorage {
  const storage = new FileCheckpointStorage({ path });
  paths.set(storage, path);
  return storage;
}

storageContract('FileCheckpointStorage', {
  describe,
  test,
  open: async () => {
    const path = await mkdtemp(join(SCRATCH_ROOT, 'savestate-file-'));
    return { storage: openAt(path), dispose: () => rm(path, { recursive: true }) };
  },
  reopen: async (storage) => {
    await storage.close();
    return openAt(paths.get(storage) ?? '');
  },
});
