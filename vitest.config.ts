import { defineConfig } from 'vitest/config';
import { WORKERS } from './test/support/workers.ts';
import { FAULT_LOOPS } from './vitest.faults.config.ts';

const exclude = [...FAULT_LOOPS, 'node_modules/**'];
const shared = { testTimeout: 120_000, hookTimeout: 60_000, pool: 'forks', maxWorkers: WORKERS } as const;
const globalSetup = ['test/support/on-demand-global.ts'];

/** Every feature on every storage. The kill, damage and fuzz loops run apart: `npm run test:faults`. */
export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    projects: [
      // A process for each file: in a shared one, what a file leaves running slows down all that follow.
      { test: { ...shared, name: 'units', include: ['src/**/*.test.ts'], exclude, globalSetup } },
      { test: { ...shared, name: 'whole', include: ['test/**/*.test.ts'], exclude, globalSetup } },
    ],
  },
});
