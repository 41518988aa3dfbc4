import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { loadWorkflowConfig } from '../config/load-workflow-config.ts';
import { defineWorkflow } from './definition/parse-workflow.ts';
import { superviseWorkflow } from './supervise.ts';
import { WorkflowExecutor } from './workflow-executor.ts';

const workflow = defineWorkflow({
  workflow: { name: 'flow' },
  steps: [
    { id: 'a', function: 'once' },
    { id: 'b', function: 'flaky' },
  ],
});

function setUp(flaky: (call: number) => unknown, settings: string) {
  const clock = new TestClock();
  const storage = clock.watch(new InMemoryCheckpointStorage());
  const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
  const calls = { once: 0, flaky: 0 };
  const functions = { once: () => ++calls.once, flaky: () => flaky(++calls.flaky) };
  const executor = new WorkflowExecutor({ manager, registry: { functions } });
  const { checkpointing } = loadWorkflowConfig(`workflow: { checkpointing: { ${settings} } }`).workflow;
  const pauses: number[] = [];
  const run = async (sessionId?: string) => {
    const supervised = superviseWorkflow(
      executor,
      { workflow, ...(sessionId !== undefined && { sessionId }) },
      { settings: checkpointing, onRetry: ({ pauseMs }) => pauses.push(pauseMs) },
    );
    supervised.catch(() => undefined);
    await clock.pass(3_600_000);
    return supervised;
  };
  return { run, calls, pauses, storage };
}

const failUntil = (good: number) => (call: number) => {
  if (call < good) throw new Error(`failure ${call}`);
  return 'ok';
};

describe('supervision', () => {
  test('[run.5] auto_resume_on_failure: true resumes from the last checkpoint, after growing pauses', async () => {
    const { run, calls, pauses } = setUp(failUntil(3), 'auto_resume_on_failure: true, auto_resume_backoff_seconds: 2');
    expect(await run()).toMatchObject({ status: 'completed', verdict: 'completed', attempts: 3, output: 'ok' });
    expect(calls).toEqual({ once: 1, flaky: 3 });
    expect(pauses).toEqual([2_000, 4_000]);
  });

  test('[run.5] auto_resume_on_failure: false runs once', async () => {
    const { run, calls } = setUp(failUntil(3), 'auto_resume_on_failure: false');
    expect(await run('s')).toMatchObject({ status: 'failed', verdict: 'failed', attempts: 1, sessionId: 's' });
    expect(calls.flaky).toBe(1);
  });

  test('[run.5] a step that fails in the same way every time is reported as deterministic after auto_resume_limit', async () => {
    const same = setUp(() => Promise.reject(new Error('always')), 'auto_resume_on_failure: true, auto_resume_limit: 2');
    expect(await same.run()).toMatchObject({
      verdict: 'deterministic',
      attempts: 3,
      failure: { path: 'b', attempts: 3, error: { message: 'always' } },
    });
    const different = setUp(failUntil(99), 'auto_resume_on_failure: true, auto_resume_limit: 2');
    expect(await different.run()).toMatchObject({ verdict: 'exhausted', attempts: 3 });
    expect([same.calls, different.calls]).toEqual([
      { once: 1, flaky: 3 },
      { once: 1, flaky: 3 },
    ]);
  });

  test('[run.5] what cannot be retried is not, and other errors are the caller’s', async () => {
    const hopeless = setUp(
      () => Promise.reject(Object.assign(new Error('no'), { retryable: false })),
      'auto_resume_on_failure: true',
    );
    expect(await hopeless.run()).toMatchObject({ verdict: 'failed', attempts: 1, failure: { isFinal: true } });
    const { run, storage } = setUp(failUntil(1), 'auto_resume_on_failure: true');
    await storage.close();
    await expect(run()).rejects.toMatchObject({ code: 'CLOSED' });
  });
});
