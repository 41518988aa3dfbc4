import { defineConfig } from 'vitest/config';

/** The kill, fault and fuzz loops at their full counts; prints n and failures for docs/GUARANTEES.md. */
export default defineConfig({
  test: {
    include: [
      'test/faults/**/*.test.ts',
      'test/loop/crash-points.test.ts',
      'src/**/*.property.test.ts',
      'src/storage/postgres/postgres-tenancy.test.ts',
    ],
    testTimeout: 3_600_000,
    hookTimeout: 600_000,
    globalSetup: ['test/support/postgres-global.ts'],
    pool: 'forks',
    fileParallelism: false,
    reporters: ['verbose'],
  },
});
