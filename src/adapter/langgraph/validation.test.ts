import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { postgresUrl } from '../../../test/support/postgres.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory-storage.ts';
import { PostgresCheckpointStorage } from '../../storage/postgres/postgres-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

// The official suite expects its test runner's functions to be global.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });
const { deltaChannelHistoryTests, specTest } = await import('@langchain/langgraph-checkpoint-validation');

const folder = mkdtempSync(join(tmpdir(), 'savestate-langgraph-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const OPEN: readonly [name: string, open: () => ChunkStorage][] = [
  ['memory', () => new InMemoryCheckpointStorage()],
  ['sqlite', () => new SqliteCheckpointStorage({ path: join(folder, `${randomUUID()}.db`), durability: 'process' })],
  [
    'postgres',
    () =>
      new PostgresCheckpointStorage({
        connectionString: postgresUrl(),
        schema: 'test_shared',
        tenant: randomUUID(),
        maxConnections: 2,
      }),
  ],
];

describe.each(OPEN)('[A1] the official suite on %s', (name, open) => {
  const storages = new Map<unknown, ChunkStorage>();
  const initializer = {
    checkpointerName: `savestate ${name}`,
    createCheckpointer: () => {
      const storage = open();
      const saver = new SavestateSaver(storage);
      storages.set(saver, storage);
      return saver;
    },
    destroyCheckpointer: async (saver: unknown) => storages.get(saver)?.close(),
  };

  specTest(initializer);
  deltaChannelHistoryTests(initializer);
});
