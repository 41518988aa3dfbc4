import { defineConfig } from 'vitest/config';
import { MODULE_CACHE, POLLS, WORKERS } from './test/support/workers.ts';
import { FAULT_LOOPS } from './vitest.faults.config.ts';

/** Folders whose tests leave nothing running. */
const SHARED = ['adapter', 'cli', 'core', 'manager', 'memory', 'runtime', 'server', 'storage', 'view'];
const testsOf = (folder: string): string => `src/${folder}/**/*.test.ts`;
const exclude = [...FAULT_LOOPS, 'node_modules/**'];
const setupFiles = ['test/support/end-of-file.ts'];
/** Whether every test runs. In a run of a part, each runs on all storages. */
const isWhole = process.argv.slice(2).every((arg) => arg === 'run' || arg.startsWith('-'));
const env: Record<string, string> = isWhole ? { TEST_STORAGES: 'shared' } : {};
const shared = {
  testTimeout: 300_000,
  hookTimeout: 60_000,
  expect: POLLS,
  pool: 'forks',
  maxWorkers: WORKERS,
  setupFiles,
  env,
} as const;
const globalSetup = ['test/support/on-demand-global.ts'];

/** Every rule on every storage (test/support/later.ts). The kill, damage and fuzz loops run apart: `npm run test:faults`. */
export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    experimental: MODULE_CACHE,
    projects: [
      // Files that leave nothing running share processes, and load the modules they share once. Each folder begins with an empty heap.
      ...SHARED.map((name) => ({
        test: { ...shared, name, include: [testsOf(name)], exclude, globalSetup, isolate: false },
      })),
      {
        test: { ...shared, name: 'commands', include: ['test/cli/**/*.test.ts'], exclude, globalSetup, isolate: false },
      },
      // A process for each file: in a shared one, what a file leaves running slows down all that follow.
      {
        test: {
          ...shared,
          name: 'units',
          include: ['src/**/*.test.ts'],
          exclude: [...exclude, ...SHARED.map(testsOf)],
          globalSetup,
        },
      },
      {
        test: {
          ...shared,
          name: 'whole',
          include: ['test/**/*.test.ts'],
          exclude: [...exclude, 'test/cli/**'],
          globalSetup,
        },
      },
    ],
  },
});
