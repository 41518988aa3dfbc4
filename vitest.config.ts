import { defineConfig } from 'vitest/config';
import { WORKERS } from './test/support/workers.ts';
import { FAULT_LOOPS } from './vitest.faults.config.ts';

/** Every feature on every storage. The kill, damage and fuzz loops run apart: `npm run test:faults`. */
export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: [...FAULT_LOOPS, 'node_modules/**'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    globalSetup: ['test/support/on-demand-global.ts'],
    pool: 'forks',
    maxWorkers: WORKERS,
  },
});
