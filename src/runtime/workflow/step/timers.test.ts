import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../../test/support/clock.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import type { StepDefinition } from '../definition/definition-schema.ts';
import { defineWorkflow } from '../definition/parse-workflow.ts';
import type { StepFunction } from '../definition/registry.ts';
import { WorkflowExecutor } from '../workflow-executor.ts';

const flow = (steps: StepDefinition[]) => defineWorkflow({ workflow: { name: 'flow' }, steps });

/** Processes that share a storage and a clock. */
function createWorld() {
  const clock = new TestClock();
  const storage = clock.watch(new InMemoryCheckpointStorage());
  const calls: string[] = [];
  const f: StepFunction = (input, { step }) => {
    calls.push(step);
    return input;
  };
  const process = (): WorkflowExecutor => {
    const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
    return new WorkflowExecutor({ manager, registry: { functions: { f } } });
  };
  return { clock, calls, process };
}

describe('time', () => {
  const workflow = flow([
    { id: 'a', function: 'f' },
    { id: 'nap', wait: '1h' },
    { id: 'b', function: 'f', input: '{{ steps.nap.output.atMs }}' },
  ]);

  test('[workflow.9] a timer goes on from its deadline, in whatever process', async () => {
    const world = createWorld();
    const deadline = world.clock.now() + 3_600_000;
    world
      .process()
      .run({ workflow, input: 1, sessionId: 's' })
      .catch(() => undefined);
    await world.clock.pass(1_800_000);
    await world.clock.settle();
    world.clock.skip(31_000);
    const running = world.process().run({ workflow, sessionId: 's' });
    await world.clock.pass(deadline - world.clock.now() - 1);
    expect(world.calls).toEqual(['a']);
    await world.clock.pass(1);
    expect(await running).toMatchObject({ status: 'completed', output: deadline });
  });

  test('[workflow.9] with timers: return the run ends as waiting, says until when, and adds nothing when it is asked too early', async () => {
    const world = createWorld();
    const deadline = world.clock.now() + 3_600_000;
    const ask = () => world.process().run({ workflow, input: 1, sessionId: 's', timers: 'return' });
    const first = await ask();
    expect(first).toMatchObject({
      status: 'waiting',
      wakeAtMs: deadline,
      pending: { timers: [{ path: 'nap', atMs: deadline }] },
    });
    expect((await ask()).checkpointId).toBe(first.checkpointId);
    world.clock.skip(3_600_000);
    expect(await ask()).toMatchObject({ status: 'completed', output: deadline, pending: { timers: [] } });
    expect(world.calls).toEqual(['a', 'b']);
  });

  test('[workflow.9] a step can wait until a time that is given as a number, a date or a text', async () => {
    const world = createWorld();
    const until = flow([{ id: 'nap', wait: { until: '{{ input }}' } }]);
    const executor = world.process();
    const atMs = world.clock.now() + 5_000;
    for (const input of [atMs, new Date(atMs), new Date(atMs).toISOString()]) {
      const { sessionId, wakeAtMs } = await executor.run({ workflow: until, input, timers: 'return' });
      expect([typeof sessionId, wakeAtMs]).toEqual(['string', atMs]);
    }
    expect(await executor.run({ workflow: until, input: atMs - 9_000 })).toMatchObject({ status: 'completed' });
    expect(await executor.run({ workflow: until, input: 'soon' })).toMatchObject({
      failure: { error: { message: '"nap" cannot wait until "soon": that is not a time.' } },
    });
  });

  test('[workflow.8] a retry waits no longer than its pause, also if the clock was set back since the failure', async () => {
    const clock = new TestClock();
    const storage = clock.watch(new InMemoryCheckpointStorage());
    const attempts: number[] = [];
    const f: StepFunction = (_, { attempt }) => {
      attempts.push(attempt);
      if (attempt === 1) throw new Error('down');
      return 'up';
    };
    const run = (signal?: AbortSignal) => {
      const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
      const executor = new WorkflowExecutor({ manager, registry: { functions: { f } } });
      const retried = flow([{ id: 'a', function: 'f', retry: { max_attempts: 2, delay: '60s' } }]);
      return executor.run({ workflow: retried, sessionId: 's', ...(signal && { signal }) });
    };
    const stop = new AbortController();
    const stopped = run(stop.signal).catch(String);
    await clock.settle();
    stop.abort(new Error('restart'));
    expect(await stopped).toContain('restart');
    clock.skip(-30 * 86_400_000);
    const resumed = run();
    await clock.pass(59_999);
    expect(attempts).toEqual([1]);
    await clock.pass(1);
    expect(attempts).toEqual([1, 2]);
    expect(await resumed).toMatchObject({ status: 'completed', output: 'up' });
  });
});
