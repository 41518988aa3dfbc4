import { expect, test } from 'vitest';
import type { FileSystem } from '../../src/storage/file/file-system.ts';
import { reportFaults } from '../support/fault-report.ts';
import { withLateSync, withoutFileSync, withoutFolderSync } from '../support/planted-bugs.ts';
import { SimulatedDisk } from '../support/simulated-disk.ts';
import { expectedStates, findFault, runSteps, scriptSteps } from './file-crash-script.ts';

const FULL = process.env.SAVESTATE_TRIALS === 'full';
const STATES = FULL ? 100_000 : 2_000;
const BUG_STATES = FULL ? 20_000 : 3_000;
/** One fault gives a bug away; the full run also tells how many there are. */
const BUG_FAULTS = FULL ? Number.POSITIVE_INFINITY : 1;
const PER_OPERATION = 10;

type Search = {
  readonly plant: (fileSystem: FileSystem) => FileSystem;
  readonly total: number;
  readonly enough: number;
};

/** Cuts the power at every operation of the script, many times, and counts the stores that come back wrong, until there are enough. */
async function countFaults({ plant, total, enough }: Search) {
  let states = 0;
  const faults: string[] = [];
  const isOver = () => states === total || faults.length >= enough;
  for (let seed = 1; !isOver(); seed++) {
    const steps = scriptSteps(seed);
    const expected = await expectedStates(steps);
    const disk = new SimulatedDisk();
    disk.startRecording();
    const acknowledged = await runSteps(disk, plant(disk.fileSystem()), steps);
    for (const state of disk.crashStates({ seed, countPerOperation: PER_OPERATION })) {
      if (isOver()) break;
      states++;
      const fault = await findFault(state, acknowledged, expected);
      if (fault !== undefined) faults.push(`seed ${seed}, operation ${state.operation}: ${fault}`);
    }
  }
  return { states, faults };
}

test('a power cut at any operation loses no acknowledged step and shows no half of one', async () => {
  const { states, faults } = await countFaults({
    plant: (fileSystem) => fileSystem,
    total: STATES,
    enough: Number.POSITIVE_INFINITY,
  });
  reportFaults('power cuts under file', { trials: states, failures: faults });
  expect(faults).toEqual([]);
});

const withoutSyncOf = (pattern: RegExp) => (fileSystem: FileSystem) => withoutFolderSync(fileSystem, pattern);

test.each([
  ['files that are not synced', withoutFileSync],
  ['folders that are not synced', withoutSyncOf(/^/)],
  ['syncs that are acknowledged too early', withLateSync],
  ['a store whose own name is not synced', withoutSyncOf(/^\/data$/)],
  ['a store whose format and folders are not synced', withoutSyncOf(/\/store$/)],
  ['new folders of chunks that are not synced', withoutSyncOf(/\/chunks$/)],
  ['new chunks that are not synced', withoutSyncOf(/\/chunks\/..$/)],
  ['new and removed sessions that are not synced', withoutSyncOf(/\/sessions$/)],
  ['new sessions whose first entry is not synced', withoutSyncOf(/\/temp\/[^/]+$/)],
  ['new entries that are not synced', withoutSyncOf(/\/sessions\/[^/]+$/)],
])('finds out about %s', async (name, plant) => {
  const { states, faults } = await countFaults({ plant, total: BUG_STATES, enough: BUG_FAULTS });
  console.info(`planted bug, ${name}: ${faults.length} faults in ${states} states`);
  expect(faults.length).toBeGreaterThan(0);
});
