import { expect, test } from 'vitest';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { TestClock } from '../../../test/support/clock.ts';
import { StorageError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { loadWorkflowConfig } from '../config/load-workflow-config.ts';
import { superviseFleet } from './fleet-runner.ts';

const TASK = 'Find out what is known.';

/** Supervises a fleet whose agents fail by plan, and lets an hour pass. */
async function supervise(yaml: string, speak: (call: number) => string | { status: number; message?: string }) {
  const clock = new TestClock();
  const storage = clock.watch(new InMemoryCheckpointStorage());
  const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
  const { checkpointing: settings } = loadWorkflowConfig(`workflow: { checkpointing: { ${yaml} } }`).workflow;
  let calls = 0;
  const crew = createCrew({ speak: () => speak(++calls) });
  const pauses: number[] = [];
  const onRetry = ({ pauseMs }: { pauseMs: number }) => void pauses.push(pauseMs);
  const supervised = superviseFleet(createRunner(crew, { manager }).runner, { task: TASK, settings, onRetry });
  await clock.pass(3_600_000);
  return { result: await supervised, crew, pauses };
}

test('[run.5] auto_resume_on_failure: true resumes from the last checkpoint, after growing pauses', async () => {
  const yaml = 'auto_resume_on_failure: true, auto_resume_backoff_seconds: 2';
  const { result, crew, pauses } = await supervise(yaml, (call) => (call < 3 ? { status: 500 + call } : 'Found.'));
  expect(result).toMatchObject({ status: 'ended', verdict: 'ended', attempts: 3 });
  expect(pauses).toEqual([2_000, 4_000]);
  expect(crew.asked.filter((kind) => kind !== 'progress')).toEqual(['facts', 'plan', 'answer']);
});

test('[run.5] auto_resume_on_failure: false runs once', async () => {
  const { result, pauses } = await supervise('auto_resume_on_failure: false', () => ({ status: 500 }));
  expect(result).toMatchObject({ status: 'failed', verdict: 'failed', attempts: 1 });
  expect(pauses).toEqual([]);
});

test('[run.5] what fails in the same way every time is reported as deterministic after auto_resume_limit, and not looped', async () => {
  const yaml = 'auto_resume_on_failure: true, auto_resume_limit: 2';
  expect((await supervise(yaml, () => ({ status: 401 }))).result).toMatchObject({
    verdict: 'deterministic',
    attempts: 3,
  });
  const other = await supervise(yaml, (call) => ({ status: 500 + call }));
  expect(other.result).toMatchObject({ verdict: 'exhausted', attempts: 3, status: 'failed' });
});

test('[run.5] a storage that fails before the first checkpoint is tried again; a fleet that waits is not', async () => {
  let failures = 2;
  class Starting extends InMemoryCheckpointStorage {
    override async commit(commit: Commit) {
      if (failures-- > 0) throw new StorageError('Not yet.');
      return super.commit(commit);
    }
  }
  const settings = { auto_resume_on_failure: true, auto_resume_limit: 3, auto_resume_backoff_seconds: 0 };
  const crew = createCrew({}, { planReview: true });
  const { runner } = createRunner(crew, { storage: new Starting() });
  expect(await superviseFleet(runner, { task: TASK, settings })).toMatchObject({ verdict: 'waiting', attempts: 3 });
  expect(crew.asked).toEqual(['facts', 'plan']);
});
