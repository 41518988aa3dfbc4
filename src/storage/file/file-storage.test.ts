import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe } from 'vitest';
import { testBut } from '../../../test/support/later.ts';
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

/** Of these, each makes hundreds of files. */
const SLOW = /any depth|filter values|a thousand|no other session|any number of chunks|is reachable|may be any text/;

storageContract('FileCheckpointStorage', {
  describe,
  test: testBut(SLOW),
  open: async () => {
    const path = await mkdtemp(join(SCRATCH_ROOT, 'savestate-file-'));
    return { storage: openAt(path), dispose: () => rm(path, { recursive: true }) };
  },
  reopen: async (storage) => {
    await storage.close();
    return openAt(paths.get(storage) ?? '');
  },
});
