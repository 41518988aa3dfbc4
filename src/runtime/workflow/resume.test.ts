import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Workers } from '../../manager/workers/workers.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { WorkflowDefinition } from './definition/definition-schema.ts';
import { defineWorkflow } from './definition/parse-workflow.ts';
import type { StepContext, StepFunction } from './definition/registry.ts';
import type { WorkflowExecutorOptions } from './executor-options.ts';
import { WorkflowExecutor } from './workflow-executor.ts';

const LAPSE_MS = 31_000;

/** A world whose processes come and go: all share the storage and the clock, and none tells the others when it is gone. */
class World {
  readonly clock = new TestClock();
  readonly calls: { step: string; attempt: number; key: string }[] = [];
  readonly storage: ChunkStorage;

  constructor(storage: ChunkStorage = new InMemoryCheckpointStorage()) {
    this.storage = this.clock.watch(storage);
  }

  process(functions: { readonly [name: string]: StepFunction }, options: Partial<WorkflowExecutorOptions> = {}) {
    const { now, setTimer } = this.clock;
    const manager = new CheckpointManager({ storage: this.storage, now, setTimer });
    const noted = Object.entries(functions).map(([name, run]) => [
      name,
      (input: never, context: StepContext) => {
        this.calls.push({ step: context.step, attempt: context.attempt, key: context.idempotencyKey });
        return run(input, context);
      },
    ]);
    const registry = { ...options.registry, functions: Object.fromEntries(noted) as typeof functions };
    return new WorkflowExecutor({ manager, ...options, registry });
  }

  /** Starts a run whose process will be gone before it ends. */
  leave(run: Promise<unknown>): void {
    run.catch(() => undefined);
  }

  /** Lets the processes that run now be gone: their leases lapse. */
  async die(): Promise<void> {
    await this.clock.settle();
    this.clock.skip(LAPSE_MS);
  }

  callsOf(step: string): number[] {
    return this.calls.filter((call) => call.step === step).map(({ attempt }) => attempt);
  }

  keysOf(step: string): number {
    return new Set(this.calls.filter((call) => call.step === step).map(({ key }) => key)).size;
  }
}

const echo = (input: unknown): unknown => input;
const hang = (): Promise<never> => new Promise(() => undefined);
const fail = (): never => {
  throw new Error('down');
};

const chain = (steps: WorkflowDefinition['steps'], checkpoint = false) =>
  defineWorkflow({ workflow: { name: 'chain', checkpoint }, steps });

describe.each([false, true])('resuming, with a checkpoint after each step: %s', (checkpoint) => {
  const workflow = chain(
    [
      { id: 'a', function: 'work' },
      { id: 'b', function: 'other', input: '{{ steps.a.output }}' },
      { id: 'c', function: 'work' },
    ],
    checkpoint,
  );

  test.each(STORAGES)(
    '[workflow.8] after a crash finished steps are not done again, and the one in flight has its key (%s)',
    async (_, create) => {
      const { storage } = create();
      const world = new World(storage);
      world.leave(world.process({ work: echo, other: hang }).run({ workflow, input: 5, sessionId: 's' }));
      while (world.callsOf('b').length === 0) await world.clock.settle();
      await world.die();
      const result = await world.process({ work: echo, other: echo }).run({ workflow, sessionId: 's' });
      expect(result).toMatchObject({ status: 'completed', output: 5, sessionId: 's', branch: 'main' });
      expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1, 2], [1]]);
      expect(world.keysOf('b')).toBe(1);
      await storage.close();
    },
  );

  test('[workflow.8] a step that failed is run again, as the next attempt with the same key', async () => {
    const world = new World();
    const first = await world.process({ work: echo, other: fail }).run({ workflow, input: 5 });
    expect(first).toMatchObject({ status: 'failed', failure: { path: 'b', attempts: 1, error: { message: 'down' } } });
    const { sessionId, checkpointId } = first;
    const again = await world.process({ work: echo, other: fail }).run({ workflow, sessionId });
    expect(again.failure?.attempts).toBe(2);
    const last = await world.process({ work: echo, other: echo }).run({ workflow, checkpointId: again.checkpointId });
    expect(last).toMatchObject({ status: 'completed', output: 5, sessionId, branch: 'main' });
    expect(checkpointId).not.toBe(last.checkpointId);
    expect([world.callsOf('a'), world.callsOf('b')]).toEqual([[1], [1, 2, 3]]);
    expect(world.keysOf('b')).toBe(1);
  });

  test('[workflow.8] a run that is completed answers the same and runs nothing', async () => {
    const world = new World();
    const first = await world.process({ work: echo, other: echo }).run({ workflow, input: 5, sessionId: 's' });
    const calls = world.calls.length;
    const second = await world.process({ work: fail, other: fail }).run({ workflow, sessionId: 's' });
    expect(second).toEqual(first);
    expect(world.calls).toHaveLength(calls);
  });
});

describe('what is done again', () => {
  test('[workflow.8] of a group that failed in part only what failed is run again', async () => {
    const world = new World();
    const workflow = chain([
      {
        id: 'g',
        parallel: [
          { id: 'a', function: 'good' },
          { id: 'b', function: 'flaky' },
          { id: 'c', function: 'good' },
        ],
      },
    ]);
    const { sessionId } = await world.process({ good: echo, flaky: fail }).run({ workflow, input: 1 });
    const result = await world.process({ good: echo, flaky: echo }).run({ workflow, sessionId });
    expect(result).toMatchObject({ status: 'completed', output: { a: 1, b: 1, c: 1 } });
    expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1, 2], [1]]);
  });

  test('[workflow.8] of a loop only the turns that did not end well, also inside sub-workflows', async () => {
    const world = new World();
    const sub = defineWorkflow({
      workflow: { name: 'sub' },
      steps: [
        { id: 'x', function: 'good' },
        { id: 'y', function: 'flaky' },
      ],
    });
    const workflow = chain([{ id: 'each', workflow: 'sub', for_each: '{{ input }}', input: '{{ item }}' }]);
    const options = { registry: { workflows: { sub } } };
    const flaky = (item: number): number => (item === 2 ? fail() : item);
    const first = await world.process({ good: echo, flaky }, options).run({ workflow, input: [1, 2, 3] });
    expect(first.failure?.path).toBe('each[1]/y');
    const { sessionId } = first;
    const result = await world.process({ good: echo, flaky: echo }, options).run({ workflow, sessionId });
    expect(result.output).toEqual([1, 2, 3]);
    expect(world.calls.map(({ step, attempt }) => `${step} ${attempt}`)).toEqual([
      'each[0]/x 1',
      'each[0]/y 1',
      'each[1]/x 1',
      'each[1]/y 1',
      'each[1]/y 2',
      'each[2]/x 1',
      'each[2]/y 1',
    ]);
  });

  test('[workflow.8] what ended while a sibling was cut off by a crash is not done again', async () => {
    const world = new World();
    const workflow = chain([
      {
        id: 'g',
        parallel: [
          { id: 'a', function: 'good', checkpoint: true },
          { id: 'b', function: 'slow' },
          { id: 'c', function: 'good' },
        ],
      },
    ]);
    world.leave(world.process({ good: echo, slow: hang }).run({ workflow, input: 1, sessionId: 's' }));
    await world.die();
    const result = await world.process({ good: echo, slow: echo }).run({ workflow, sessionId: 's' });
    expect(result).toMatchObject({ status: 'completed', output: { a: 1, b: 1, c: 1 } });
    expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1, 2], [1]]);
    expect(world.keysOf('b')).toBe(1);
  });

  test('[workflow.8] attempts are counted on also for a step that could not begin again before the next crash', async () => {
    const world = new World();
    const workflow = chain([
      {
        id: 'g',
        parallel: [
          { id: 'a', function: 'bad' },
          { id: 'b', function: 'slow' },
          { id: 'c', function: 'slow' },
        ],
      },
    ]);
    world.leave(world.process({ bad: hang, slow: hang }).run({ workflow, sessionId: 's' }));
    await world.die();
    const one = world.process({ bad: fail, slow: hang }, { maxConcurrency: 1 }); // only `a` gets its turn, and fails
    expect(await one.run({ workflow, sessionId: 's' }).then(({ status }) => status, String)).toBe('failed');
    const result = await world.process({ bad: echo, slow: echo }).run({ workflow, sessionId: 's' });
    expect(result.status).toBe('completed');
    expect(world.callsOf('a')).toEqual([1, 2, 3]);
    expect([world.callsOf('b'), world.callsOf('c')]).toEqual([
      [1, 2],
      [1, 2],
    ]);
    expect([world.keysOf('a'), world.keysOf('b')]).toEqual([1, 1]);
  });

  test('[workflow.8] after a crash retries and their pauses go on where they were', async () => {
    const world = new World();
    const workflow = chain([{ id: 'a', function: 'flaky', retry: { max_attempts: 4, delay: '60s', factor: 1 } }]);
    const flaky = (_: unknown, { attempt }: StepContext): string => (attempt < 4 ? fail() : 'ok');
    world.leave(world.process({ flaky }).run({ workflow, sessionId: 's' }));
    await world.clock.pass(60_000);
    expect(world.callsOf('a')).toEqual([1, 2]);
    await world.die(); // in the pause, which has 29 seconds left
    const result = world.process({ flaky }).run({ workflow, sessionId: 's' });
    await world.clock.pass(28_000);
    expect(world.callsOf('a')).toEqual([1, 2]);
    await world.clock.pass(1_000);
    expect(world.callsOf('a')).toEqual([1, 2, 3]);
    await world.clock.pass(60_000);
    expect(await result).toMatchObject({ status: 'completed', output: 'ok', steps: [{ attempts: 4 }] });
    expect(world.keysOf('a')).toBe(1);
  });

  test('[workflow.8] a failure that was passed over is not tried again after a crash', async () => {
    const world = new World();
    const workflow = chain([
      { id: 'a', function: 'bad', on_error: { goto: 'c' } },
      { id: 'b', function: 'other' },
      { id: 'c', function: 'last' },
    ]);
    world.leave(world.process({ bad: fail, other: echo, last: hang }).run({ workflow, sessionId: 's' }));
    await world.die();
    const result = await world.process({ bad: echo, other: echo, last: echo }).run({ workflow, sessionId: 's' });
    expect(result.steps.map(({ path, status }) => `${path} ${status}`)).toEqual(['a failed', 'b skipped', 'c done']);
    expect(world.callsOf('a')).toEqual([1]);
  });
});

describe('from a checkpoint', () => {
  const workflow = chain(
    [
      { id: 'a', function: 'f' },
      { id: 'b', function: 'f' },
      { id: 'c', function: 'f' },
    ],
    true,
  );

  test('[workflow.11] an older checkpoint is resumed in a branch of its own: what came after it is done again, with keys of its own', async () => {
    const world = new World();
    const executor = world.process({ f: echo });
    const { sessionId } = await executor.run({ workflow, input: 1 });
    const { checkpoints } = await executor.manager.list({ sessionId }, { order: 'oldest' });
    expect(checkpoints.map(({ trigger, status }) => `${trigger} ${status}`)).toEqual([
      'workflow_started running',
      'step_completed running',
      'step_completed running',
      'step_completed running',
      'workflow_completed completed',
    ]);
    expect(checkpoints.map(({ metadata }) => metadata?.step)).toEqual([undefined, 'a', 'b', 'c', undefined]);
    const afterA = checkpoints[1]?.id ?? '';
    const result = await executor.run({ workflow, checkpointId: afterA });
    expect(result).toMatchObject({ status: 'completed', output: 1, sessionId, branch: 'fork-2' });
    expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1, 1], [1, 1]]);
    expect(world.keysOf('b')).toBe(2);
    const prefix = result.checkpointId.slice(0, -1);
    expect((await executor.run({ workflow, checkpointId: prefix }).catch(String)).toString()).not.toMatch(/TypeError/);
  });

  test('[workflow.11] what does not fit is refused before anything runs', async () => {
    const world = new World();
    const executor = world.process({ f: echo });
    const { sessionId, checkpointId } = await executor.run({ workflow, input: 1 });
    const foreign = await executor.manager.save({ not: 'a run' }, { sessionId: 'other' });
    const other = defineWorkflow({ workflow: { name: 'other' }, steps: [{ id: 'a', function: 'f' }] });
    const calls = world.calls.length;
    await expect(executor.run({ workflow, checkpointId: foreign })).rejects.toThrow(
      'Session "other" does not hold the run of a workflow.',
    );
    await expect(executor.run({ workflow, checkpointId: 'chk_nope' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(executor.run({ workflow, checkpointId, sessionId: 'other' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
    await expect(executor.run({ workflow: other, sessionId })).rejects.toThrow(
      /holds a run of workflow "chain", not of "other"/,
    );
    await expect(executor.run({ workflow, sessionId, input: 2 })).rejects.toThrow(/began with another input/);
    expect(await executor.run({ workflow, sessionId, input: 1 })).toMatchObject({ status: 'completed' });
    expect(world.calls).toHaveLength(calls);
  });

  test('[workflow.12] a step is followed by a checkpoint if it, or the workflow, says so', async () => {
    const world = new World();
    const executor = world.process({ f: echo });
    const steps = [
      { id: 'a', function: 'f', checkpoint: true },
      { id: 'b', function: 'f' },
      { id: 'c', function: 'f', checkpoint: false },
    ];
    const countOf = async (checkpoint: boolean): Promise<number> => {
      const { sessionId } = await executor.run({ workflow: chain(steps, checkpoint) });
      return (await executor.manager.list({ sessionId })).checkpoints.length;
    };
    expect([await countOf(false), await countOf(true)]).toEqual([3, 4]);
  });

  test.each(STORAGES.filter(([name]) => name !== 'postgres'))(
    '[workflow.12] steps that end at the same time are each followed by a checkpoint that holds them (%s)',
    async (_, create) => {
      const { storage } = create();
      const world = new World(storage);
      const executor = world.process({ f: async (input) => new Promise((resolve) => setImmediate(resolve, input)) });
      const many = chain([
        { id: 'each', function: 'f', for_each: { items: '{{ input }}', concurrency: 5 }, checkpoint: true },
        { id: 'g', parallel: ['p', 'q', 'r'].map((id) => ({ id, function: 'f', checkpoint: true })) },
      ]);
      const { status, sessionId } = await executor.run({
        workflow: many,
        input: Array.from({ length: 20 }, (__, at) => at),
      });
      expect(status).toBe('completed');
      const { checkpoints } = await executor.manager.list({ sessionId }, { order: 'oldest', limit: 100 });
      expect(checkpoints).toHaveLength(1 + 20 + 1 + 3 + 1);
      for (const checkpoint of checkpoints) {
        const { ends } = (await executor.manager.load(checkpoint.id)) as { ends: { path: string }[] };
        const { effectCount = 0, effectsInFlight = [] } = checkpoint.header;
        // Whatever is recorded and not in flight is in the state: nothing falls between.
        const done = ends.filter(({ path }) => path !== 'each' && path !== 'g').length;
        expect(done).toBe(effectCount - effectsInFlight.length);
      }
      await storage.close();
    },
  );

  test('[workflow.12] checkpoints say whose they are and what they are of', async () => {
    const executor = new World().process({ f: echo });
    const { checkpointId } = await executor.run({ workflow, userId: 'ann', metadata: { order: 7 } });
    expect(await executor.manager.get(checkpointId)).toMatchObject({
      userId: 'ann',
      agentId: 'chain',
      agentType: 'workflow',
      status: 'completed',
      metadata: { order: 7 },
      fingerprint: { workflow: 'chain' },
    });
  });
});

describe('trouble', () => {
  const workflow = chain(
    [
      { id: 'a', function: 'f' },
      { id: 'b', function: 'f' },
      { id: 'c', function: 'f' },
    ],
    true,
  );

  /** A storage whose commits of some kind fail, as those of a full disk. */
  function failing(inner: ChunkStorage, isHit: (commit: Commit) => boolean): ChunkStorage {
    return new Proxy(inner, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name !== 'commit') return typeof value === 'function' ? value.bind(target) : value;
        return async (commit: Commit) => {
          if (isHit(commit)) throw Object.assign(new Error('full'), { code: 'STORAGE', details: {} });
          return target.commit(commit);
        };
      },
    });
  }

  test('[workflow.12] a checkpoint after a step that cannot be stored does not stop the run, and is told', async () => {
    let hits = 0;
    const storage = failing(
      new InMemoryCheckpointStorage(),
      ({ checkpoint }) => checkpoint?.header.trigger === 'step_completed' && ++hits === 2,
    );
    const executor = new World(storage).process({ f: echo });
    const told: unknown[] = [];
    executor.manager.on('save_failed', (error) => told.push(error));
    const result = await executor.run({ workflow, input: 1 });
    expect(result).toMatchObject({ status: 'completed', output: 1 });
    expect(told).toHaveLength(1);
    expect((await executor.manager.verify()).findings).toEqual([]);
  });

  test('[workflow.14] when results cannot be recorded nothing new begins, and that is no failure of a step', async () => {
    let isDown = false;
    const inner = new InMemoryCheckpointStorage();
    const world = new World(failing(inner, () => isDown));
    const f = (input: unknown, { step }: StepContext): unknown => {
      isDown = step === 'b';
      return input;
    };
    await expect(world.process({ f }).run({ workflow, input: 1, sessionId: 's' })).rejects.toMatchObject({
      code: 'STORAGE',
    });
    expect(world.callsOf('c')).toEqual([]);
    isDown = false;
    world.clock.skip(LAPSE_MS);
    expect(await world.process({ f: echo }).run({ workflow, sessionId: 's' })).toMatchObject({
      status: 'completed',
      output: 1,
    });
    expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1, 2], [1]]);
  });

  test('[workflow.14] an aborted run stops where it is; the step that was cut off runs again', async () => {
    const world = new World();
    const stop = new AbortController();
    const f = (input: unknown, { step, signal }: StepContext): unknown => {
      if (step !== 'b') return input;
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        stop.abort(new Error('shutting down'));
      });
    };
    await expect(world.process({ f }).run({ workflow, sessionId: 's', signal: stop.signal })).rejects.toThrow(
      'shutting down',
    );
    expect(await world.process({ f: echo }).run({ workflow, sessionId: 's' })).toMatchObject({ status: 'completed' });
    expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1, 2], [1]]);
    expect(world.keysOf('b')).toBe(1);
  });

  test('[workflow.14] a function that stops its own run and throws at once is cut off like any other', async () => {
    const world = new World();
    const stop = new AbortController();
    const f = (): never => {
      stop.abort(new Error('enough'));
      throw stop.signal.reason;
    };
    await expect(world.process({ f }).run({ workflow, sessionId: 's', signal: stop.signal })).rejects.toThrow('enough');
    expect(await world.process({ f: echo }).run({ workflow, sessionId: 's' })).toMatchObject({ status: 'completed' });
    expect(world.callsOf('a')).toEqual([1, 2]);
  });

  test('[run.4] one process at a time has a run; when it dies another recovers it', async () => {
    const world = new World();
    const dead = world.process({ f: hang }, { lease: { owner: 'worker-1' } });
    world.leave(dead.run({ workflow, input: 1, sessionId: 's' }));
    await world.clock.settle();
    const executor = world.process({ f: echo }, { registry: { workflows: { chain: workflow } } });
    await expect(executor.run({ workflow, sessionId: 's' })).rejects.toThrow(
      /worked on already, on branch "main", by "worker-1" \(process \d+\), whose lease lasts until 20/,
    );
    await world.die();
    const results: unknown[] = [];
    const recover = () =>
      new Workers(executor.manager).recoverAbandoned(async (session, recovery) =>
        results.push(await executor.recover(session, recovery)),
      );
    expect(await recover()).toMatchObject({ counts: { recovered: 1 } });
    expect(results).toMatchObject([{ status: 'completed', output: 1 }]);
    expect(world.callsOf('a')).toEqual([1, 2]);
    expect(await recover()).toMatchObject({ counts: { recovered: 0 } });
  });

  test('[run.4] of two processes that begin the same run one does it, and the other waits for it if asked to', async () => {
    const world = new World();
    const run = (waitMs: number) => {
      const executor = world.process(
        { f: async (input) => new Promise((resolve) => setImmediate(resolve, input)) },
        { lease: { waitMs } },
      );
      return executor.run({ workflow, input: 1, sessionId: 's' });
    };
    const [first, refused, waited] = [run(0), run(0), run(60_000)];
    refused.catch(() => undefined);
    await world.clock.pass(60_000);
    expect((await Promise.allSettled([first, refused])).map(({ status }) => status).sort()).toEqual([
      'fulfilled',
      'rejected',
    ]);
    expect(await waited).toMatchObject({ status: 'completed', output: 1 });
    expect([world.callsOf('a'), world.callsOf('b'), world.callsOf('c')]).toEqual([[1], [1], [1]]);
  });

  test('[workflow.8] steps may be called as what every object has', async () => {
    const world = new World();
    const odd = chain([
      { id: 'constructor', function: 'f', retry: { max_attempts: 2, delay: 0 } },
      { id: 'toString', wait: '1ms' },
      { id: 'valueOf', approval: { message: 'Well?' } },
      { id: 'hasOwnProperty', function: 'f', input: '{{ steps.constructor.output }}' },
    ]);
    const f = (input: unknown, { attempt }: StepContext): unknown => (attempt === 1 ? fail() : input);
    const executor = world.process({
      f: (input, context) => (context.step === 'constructor' ? f(input, context) : input),
    });
    const running = executor.run({ workflow: odd, input: 7, sessionId: 's' });
    await world.clock.pass(1_000);
    expect(await running).toMatchObject({ status: 'waiting', pending: { approvals: [{ id: 'valueOf' }] } });
    await executor.answer({ sessionId: 's', requestId: 'valueOf', answer: 'approve', by: 'Ann' });
    expect(await executor.run({ workflow: odd, sessionId: 's' })).toMatchObject({ status: 'completed', output: 7 });
    expect(() => chain([{ id: '__proto__', function: 'f' }])).toThrow(/must begin with a letter/);
  });

  test('[workflow.8] the caller’s input stays its own', async () => {
    const input = { list: [1] };
    const result = await new World().process({ f: echo }).run({ workflow, input });
    input.list.push(2);
    expect(result.output).toEqual({ list: [1] });
    expect(Object.isFrozen(result.output)).toBe(true);
  });

  test('[run.4] a run that fails when it is recovered comes up again, and is poisoned after its last attempt', async () => {
    const world = new World();
    world.leave(world.process({ f: hang }).run({ workflow, sessionId: 's' }));
    await world.die();
    const executor = world.process({ f: fail }, { registry: { workflows: { chain: workflow } } });
    const recover = async () => {
      const report = await new Workers(executor.manager).recoverAbandoned(
        (session, recovery) => executor.recover(session, recovery),
        { maxAttempts: 2, backoffMs: () => 1 },
      );
      world.clock.skip(1);
      return report;
    };
    expect(await recover()).toMatchObject({
      counts: { failed: 1 },
      failed: [{ error: { message: 'Step "a" failed: down' } }],
    });
    expect(await recover()).toMatchObject({ counts: { poisoned: 1 } });
    expect(world.callsOf('a')).toEqual([1, 2, 3]);
  });
});
