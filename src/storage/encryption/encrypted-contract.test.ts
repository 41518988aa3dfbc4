import { describe, test } from 'vitest';
import { storageContract } from '../../testing/storage-contract.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import { encrypted } from './encrypted.ts';
import { Keyring } from './keyring.ts';

const keys = Keyring.create();

storageContract('encrypted(memory)', {
  describe,
  test,
  open: async () => encrypted(new InMemoryCheckpointStorage(), { keys }),
});
