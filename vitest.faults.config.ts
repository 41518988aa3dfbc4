import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { MODULE_CACHE, POLLS, WORKERS } from './test/support/workers.ts';

/** Files that kill, damage, cut or draw at random, again and again. */
export const FAULT_LOOPS = [
  'test/faults/**/*.test.ts',
  'test/loop/crash-points.test.ts',
  'test/loop/healthy-loops.test.ts',
  'test/loop/processes.test.ts',
  'test/loop/simulated-week.test.ts',
  'src/**/*.property.test.ts',
  'test/cli/redact-killed.test.ts',
  'test/studio/trouble.test.ts',
  'test/support/postgres-pair.test.ts',
  'src/adapter/langgraph/saver/saver-killed.test.ts',
  'src/runtime/repair/trial-killed.test.ts',
  'src/storage/postgres/schema/postgres-tenancy.test.ts',
];

/** Ordinary tests that make fewer trials in `npm test`. */
export const SHORTENED = [
  'src/adapter/langgraph/{record/graph-ids,store/savestate-store,store/store-trie}.test.ts',
  'src/adapter/openai-agents/savestate-session.test.ts',
  'src/core/{codec/near-state,codec/plain-json,codec/state-check,diff/align,secret/redaction,pattern/linear-pattern,tree/list-trace,tree/text-pieces}.test.ts',
  'src/manager/retention/retention.test.ts',
  'src/runtime/loop/{clock-jumps,recovery,retry,turn/operation,undone-turns}.test.ts',
  'src/runtime/{drift/drift-snapshot,drift/odd-events,repair/intervene,run/work,workspace/ignore-list}.test.ts',
  'test/cli/remote.test.ts',
  'test/loop/ordinary-work.test.ts',
];

/** What takes longest at its full count begins first, so that the others fill the time beside it. */
const LONGEST = [
  'soak',
  'damage',
  'simulation',
  'state-codec.property',
  'failed-commits',
  'postgres-failover',
  'workflow-killed',
  'saves-killed',
  'steps-killed',
  'diff.property',
  'simulated-week',
  'backup-killed',
  'adapters-killed',
  'fleet-killed',
  'group-killed',
  'postgres-lease-stopped',
  'concurrent',
] as const;

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return at === -1 ? LONGEST.length : at;
    };
    return files.toSorted((a, b) => rank(a) - rank(b));
  }
}

const isFull = process.env.SAVESTATE_TRIALS === 'full';

const shared = {
  // Nothing fails because the machine is busy with other things.
  testTimeout: isFull ? 3_600_000 : 1_200_000,
  hookTimeout: 600_000,
  expect: POLLS,
  globalSetup: ['test/support/on-demand-global.ts'],
  setupFiles: ['test/support/end-of-file.ts'],
  pool: 'forks' as const,
  maxWorkers: isFull ? WORKERS + 1 : WORKERS,
};
const env = { SAVESTATE_TRIALS: isFull ? 'full' : 'tenth' };

/** Files with tests that `npm test` leaves to the fault loops, wholly or on some storages. */
function leavingSome(): string[] {
  const files = ['src', 'test'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  );
  return files.filter((file) => file.endsWith('.test.ts') && readFileSync(file, 'utf8').includes('/later.ts'));
}

/**
 * The loops at their full counts, one file more at a time than cores because many wait, with n and failures for docs/GUARANTEES.md; or, for each change, at a tenth. And the
 * tests of `npm test` on the storages on which they do not run there.
 */
export default defineConfig({
  test: {
    maxWorkers: isFull ? WORKERS + 1 : WORKERS,
    experimental: MODULE_CACHE,
    sequence: isFull ? { sequencer: LongestFirst } : {},
    reporters: isFull ? ['verbose'] : ['default'],
    passWithNoTests: true,
    projects: [
      { test: { ...shared, name: 'loops', include: [...FAULT_LOOPS, ...SHORTENED], env } },
      {
        test: {
          ...shared,
          name: 'rest',
          include: leavingSome(),
          exclude: [...FAULT_LOOPS, ...SHORTENED],
          env: { ...env, TEST_STORAGES: 'rest' },
        },
      },
    ],
  },
});
