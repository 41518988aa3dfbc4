import { expect, test } from 'vitest';
import { describeSlips } from './variables.ts';

test('[settings.3] variables that were probably meant for the command line are named; those it reads, and others, are not', () => {
  const slips = ['STORAGEE', 'KEY', 'USER_ID', 'STORAGE_PATH', 'storage', 'WORKFLWO_MAX_ROUNDS'].map(
    (name) => `SAVESTATE_${name}`,
  );
  const fine = ['STORAGE', 'KEY_FILE', 'WORKFLOW_MAX_ROUNDS', 'TRIALS', 'TEST', 'WAREHOUSE'].map(
    (name) => `SAVESTATE_${name}`,
  );
  const env = Object.fromEntries([...slips, ...fine, 'PATH', 'STORAGEE'].map((name) => [name, 'x']));
  expect(describeSlips(env)).toEqual([
    'SAVESTATE_STORAGEE has no effect. Did you mean SAVESTATE_STORAGE?',
    'SAVESTATE_KEY has no effect. Did you mean SAVESTATE_KEYS?',
    'SAVESTATE_USER_ID has no effect. Did you mean SAVESTATE_USER?',
    'SAVESTATE_STORAGE_PATH has no effect. Did you mean SAVESTATE_STORAGE?',
    'SAVESTATE_storage has no effect. Did you mean SAVESTATE_STORAGE?',
    'SAVESTATE_WORKFLWO_MAX_ROUNDS has no effect. Did you mean SAVESTATE_WORKFLOW_MAX_ROUNDS?',
  ]);
});
