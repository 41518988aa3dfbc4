import { defineConfig } from 'vitest/config';
import { WORKERS } from './test/support/workers.ts';

/** Files that kill, damage, cut or draw at random, again and again. */
export const FAULT_LOOPS = [
  'test/faults/**/*.test.ts',
  'test/loop/crash-points.test.ts',
  'test/loop/processes.test.ts',
  'src/**/*.property.test.ts',
  'src/runtime/repair/trial-killed.test.ts',
  'src/storage/postgres/schema/postgres-tenancy.test.ts',
];

const isFull = process.env.SAVESTATE_TRIALS === 'full';

/** The loops at their full counts one after the other, with n and failures for docs/GUARANTEES.md; or, for each change, at a tenth. */
export default defineConfig({
  test: {
    include: FAULT_LOOPS,
    testTimeout: isFull ? 3_600_000 : 300_000,
    hookTimeout: isFull ? 600_000 : 60_000,
    globalSetup: ['test/support/on-demand-global.ts'],
    setupFiles: ['test/support/end-of-file.ts'],
    pool: 'forks',
    maxWorkers: WORKERS,
    fileParallelism: !isFull,
    reporters: isFull ? ['verbose'] : ['default'],
  },
});
