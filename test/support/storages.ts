import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { PostgresCheckpointStorage } from '../../src/storage/postgres/postgres-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { postgresUrl } from './postgres.ts';
import { SCRATCH_ROOT } from './scratch-root.ts';

/** A folder that is gone when the test ends; on the disk, unless another place is named. */
export function temporaryFolder(root = tmpdir()): string {
  const folder = mkdtempSync(join(root, 'savestate-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Each built-in storage, fresh; `reopen` opens the same data in a new object, as another process would. */
export const STORAGES: readonly [name: string, create: () => { storage: ChunkStorage; reopen?: () => ChunkStorage }][] =
  [
    ['memory', () => ({ storage: new InMemoryCheckpointStorage() })],
    [
      'sqlite',
      () => {
        const path = join(temporaryFolder(SCRATCH_ROOT), 'test.db');
        const open = () => new SqliteCheckpointStorage({ path, durability: 'process' });
        return { storage: open(), reopen: open };
      },
    ],
    [
      'file',
      () => {
        const path = join(temporaryFolder(SCRATCH_ROOT), 'checkpoints');
        const open = () => new FileCheckpointStorage({ path });
        return { storage: open(), reopen: open };
      },
    ],
    [
      'postgres',
      () => {
        const tenant = randomUUID();
        const open = () =>
          new PostgresCheckpointStorage({
            connectionString: postgresUrl(),
            schema: 'test_shared',
            tenant,
            maxConnections: 4,
          });
        return { storage: open(), reopen: open };
      },
    ],
  ];
