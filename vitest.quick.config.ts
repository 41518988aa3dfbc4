import { defineConfig } from 'vitest/config';
import { POLLS, WORKERS } from './test/support/workers.ts';
import { FAULT_LOOPS } from './vitest.faults.config.ts';

/** Files that measure, race or fill storages: most of the time, and seldom what a change breaks first. */
const SLOW = [
  'src/core/{codec/*-state,codec/state-check,diff/diff-states,secret/redaction*,tree/list-trace}.test.ts',
  'src/manager/**/{*-limits,branch-line,folding,import*,input-digest,recording-drop,recovery,remote-saves,retention-queue,turns}.test.ts',
];

/** Core and manager in seconds, while one works on them: without a server, and on a disk only where the test is about it. */
export default defineConfig({
  test: {
    include: ['src/{core,manager}/**/*.test.ts'],
    exclude: [...FAULT_LOOPS, ...SLOW],
    testNamePattern: /^(?!.*\b(postgres|sqlite|file)\b)/,
    globalSetup: ['test/support/on-demand-global.ts'],
    setupFiles: ['test/support/end-of-file.ts'],
    testTimeout: 60_000,
    expect: POLLS,
    pool: 'forks',
    maxWorkers: WORKERS,
    isolate: false,
  },
});
