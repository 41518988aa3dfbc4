import { beforeEach, expect, test, vi } from 'vitest';
import { IS_FULL, reportFaults } from '../support/fault-report.ts';
import { PLANTED_BUGS } from './simulation/planted.ts';
import { playSchedule } from './simulation/schedule.ts';

/** So many cost about a tenth of a second of processor time each. */
const SCHEDULES = IS_FULL ? 10_000 : 150;

// Who waits for another process waits some turns of the event loop, and no real time: so a seed always plays the same schedule.
vi.mock('node:timers/promises', async (importOriginal) => {
  const original = await importOriginal<typeof import('node:timers/promises')>();
  const setTimeout = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn++) await original.setImmediate();
  };
  return { ...original, default: { ...original, setTimeout }, setTimeout };
});

// Not a spy, which would keep every look at the clock: four gigabytes in a full run.
beforeEach(() => {
  const { now } = performance;
  performance.now = () => 0;
  return () => {
    performance.now = now;
  };
});

const BUG_SCHEDULES = 300;
/** On a machine that is busy with other things, too. */
const TIMEOUT_MS = 3_600_000;
const first = Number(process.env.SAVESTATE_SEED ?? 1);
/** `SAVESTATE_SEED=20001 SAVESTATE_SCHEDULES=300` plays so many from that seed on. */
const count = Number(process.env.SAVESTATE_SCHEDULES ?? (process.env.SAVESTATE_SEED === undefined ? SCHEDULES : 1));

test('random schedules of several processes with kills and power cuts agree with the model', {
  timeout: TIMEOUT_MS,
}, async () => {
  const failures: string[] = [];
  for (let seed = first; seed < first + count; seed++) {
    const { faults, trace } = await playSchedule(seed);
    if (faults.length === 0) continue;
    failures.push(`SAVESTATE_SEED=${seed}: ${faults[0]} (${trace.join(', ')})`);
    console.log(failures.at(-1)); // a long run is looked at before its end
  }
  reportFaults('simulated schedules', { trials: count, failures });
  expect(failures).toEqual([]);
});

test('[session.4] the tree of a session shows nothing of an import whose process was killed', {
  timeout: TIMEOUT_MS,
}, async () => {
  expect((await playSchedule(272, { kind: 'memory' })).faults).toEqual([]);
});

test.each(PLANTED_BUGS)('notices that %s', { timeout: TIMEOUT_MS }, async (name, bug) => {
  for (let seed = 1; seed <= BUG_SCHEDULES; seed++) {
    const { faults } = await playSchedule(seed, bug);
    if (faults.length === 0) continue;
    console.info(`planted bug, ${name}: found by schedule ${seed}: ${faults[0]}`);
    return;
  }
  expect.unreachable(`${BUG_SCHEDULES} schedules did not notice that ${name}`);
});
