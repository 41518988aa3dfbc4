import { describe, test } from 'vitest';
import { storageContract } from '../../testing/storage-contract.ts';
import { InMemoryCheckpointStorage } from './memory-storage.ts';

storageContract('InMemoryCheckpointStorage', { describe, test, open: async () => new InMemoryCheckpointStorage() });
