import { defineConfig } from 'vitest/config';
import { WORKERS } from './test/support/workers.ts';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    globalSetup: ['test/support/postgres-global.ts'],
    pool: 'forks',
    maxWorkers: WORKERS,
  },
});
