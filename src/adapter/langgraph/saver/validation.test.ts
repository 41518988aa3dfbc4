import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, type RunnerTask } from 'vitest';
import { postgresUrl } from '../../../../test/support/postgres.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { PostgresCheckpointStorage } from '../../../storage/postgres/postgres-storage.ts';
import { SqliteCheckpointStorage } from '../../../storage/sqlite/sqlite-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

// The official suite expects its test runner's functions to be global.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });
const { deltaChannelHistoryTests, specTest } = await import('@langchain/langgraph-checkpoint-validation');

/** 718 of the suite and 8 about delta channels; see [langgraph.1]. */
const SUITE_TESTS = 726;

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

describe.each(OPEN)('[langgraph.1] the official suite on %s', (name, open) => {
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

  describe('in whole', () => {
    specTest(initializer);
    deltaChannelHistoryTests(initializer);
  });

  // A release of the suite that brings fewer tests, or skips some here, must not pass for the whole of it.
  it('has run, all of it', ({ task }) => {
    const suite = task.suite?.tasks.find(({ name: title }) => title === 'in whole');
    expect(suite && statesOf(suite)).toEqual({ pass: SUITE_TESTS });
  });
});

/** How many tests ended how. */
function statesOf(suite: RunnerTask): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { result, mode } of testsOf(suite)) {
    const state = result?.state ?? mode;
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

function testsOf(task: RunnerTask): RunnerTask[] {
  return task.type === 'suite' ? task.tasks.flatMap(testsOf) : [task];
}
