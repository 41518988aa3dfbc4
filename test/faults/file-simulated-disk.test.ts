import { describe, test } from 'vitest';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { storageContract } from '../../src/testing/storage-contract.ts';
import { SimulatedDisk } from '../support/simulated-disk.ts';

const disks = new Map<ChunkStorage, SimulatedDisk>();

function openOn(disk: SimulatedDisk): FileCheckpointStorage {
  const storage = new FileCheckpointStorage({ path: '/store', fileSystem: disk.fileSystem() });
  disks.set(storage, disk);
  return storage;
}

storageContract('FileCheckpointStorage on a simulated disk', {
  describe,
  test,
  open: async () => openOn(new SimulatedDisk()),
  reopen: async (storage) => {
    await storage.close();
    return openOn(disks.get(storage) ?? new SimulatedDisk());
  },
});
