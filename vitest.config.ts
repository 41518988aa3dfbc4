import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    globalSetup: ['test/support/postgres-global.ts'],
    pool: 'forks',
    // One for each core: many tests wait for processes and disks.
    maxWorkers: '100%',
  },
});
