import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { StepDefinition } from './definition/definition-schema.ts';
import { fingerprintOf } from './definition/fingerprint.ts';
import { defineWorkflow } from './definition/parse-workflow.ts';
import type { StepFunction } from './definition/registry.ts';
import type { WorkflowMigration } from './migration.ts';
import { WorkflowExecutor } from './workflow-executor.ts';

const flow = (...steps: StepDefinition[]) => defineWorkflow({ workflow: { name: 'flow' }, steps });

function createWorld() {
  const clock = new TestClock();
  const storage = clock.watch(new InMemoryCheckpointStorage());
  const calls: string[] = [];
  let stopAt = '';
  const f: StepFunction = (input, { step }) => {
    calls.push(step);
    if (step === stopAt) throw new Error('stop');
    return input;
  };
  const process = (migrations: readonly WorkflowMigration[] = [], workflows = {}) => {
    const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
    return new WorkflowExecutor({ manager, registry: { functions: { f, g: f }, workflows }, migrations });
  };
  return { clock, calls, process, stop: (step: string) => (stopAt = step) };
}

const a: StepDefinition = { id: 'a', function: 'f', input: 1 };
const b: StepDefinition = { id: 'b', function: 'f', input: 2 };
const c: StepDefinition = { id: 'c', function: 'f', input: 3 };

/** A run that stopped at `b`, so that `a` has ended, `b` has begun and `c` has not. */
async function stopped() {
  const world = createWorld();
  world.stop('b');
  const { sessionId } = await world.process().run({ workflow: flow(a, b, c) });
  world.stop('');
  world.calls.length = 0;
  return { ...world, sessionId };
}

/** A run of `a` and `b` that is completed. */
async function completed() {
  const world = createWorld();
  const { sessionId } = await world.process().run({ workflow: flow(a, b) });
  world.calls.length = 0;
  return { ...world, sessionId };
}

describe('a changed definition', () => {
  test('[workflow.10] also of a completed run: an added step runs, and a changed one is refused unless it is accepted', async () => {
    const { process, sessionId, calls } = await completed();
    const changed = flow({ ...a, input: 9 }, b, c);
    await expect(process().run({ workflow: changed, sessionId })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      details: { step: 'a' },
    });
    expect(calls).toEqual([]);
    expect(await process().run({ workflow: flow(a, b, c), sessionId })).toMatchObject({
      status: 'completed',
      output: 3,
      steps: [{ path: 'a' }, { path: 'b' }, { path: 'c' }],
      differences: [],
    });
    const accepted = process().run({ workflow: changed, sessionId, onDifference: 'accept' });
    expect(await accepted).toMatchObject({ status: 'completed', differences: [{ path: '$.steps.a' }] });
    expect(await process().run({ workflow: changed, sessionId })).toMatchObject({ status: 'completed' });
    expect(calls).toEqual(['c']);
  });

  test.each<[what: string, changed: StepDefinition[], step: string]>([
    ['an input of what has ended', [{ ...a, input: 9 }, b, c], 'a'],
    ['the function of what has begun', [a, { ...b, function: 'g' }, c], 'b'],
    ['a condition', [{ ...a, when: 'input' }, b, c], 'a'],
    ['a step before', [{ id: 'new', function: 'f' }, a, b, c], 'new'],
    ['a step between', [a, { id: 'new', function: 'f' }, b, c], 'new'],
    ['a step that is gone', [b, c], 'b'],
    ['another name', [{ ...a, id: 'other' }, b, c], 'other'],
    ['an error that is passed over now', [{ ...a, on_error: 'continue' }, b, c], 'a'],
  ])(
    '[workflow.10] %s is refused before anything runs, by the name of the first changed step',
    async (_, changed, step) => {
      const { process, sessionId, calls } = await stopped();
      const before = (await process().manager.list({ sessionId })).checkpoints.length;
      const refusal = await process()
        .run({ workflow: flow(...changed), sessionId })
        .catch((error: unknown) => error);
      expect(refusal).toMatchObject({ code: 'UNSUPPORTED', details: { workflow: 'flow', step } });
      expect(String(refusal)).toContain(`step "${step}" is not what it was`);
      expect(calls).toEqual([]);
      expect((await process().manager.list({ sessionId })).checkpoints).toHaveLength(before);
      expect(await process().run({ workflow: flow(a, b, c), sessionId })).toMatchObject({ status: 'completed' });
    },
  );

  test.each<[what: string, changed: StepDefinition[], ran: string[]]>([
    ['a step that has not begun', [a, b, { ...c, function: 'g', input: 4 }], ['b', 'c']],
    ['a step more at the end', [a, b, c, { id: 'd', function: 'f' }], ['b', 'c', 'd']],
    ['a step less at the end', [a, b], ['b']],
    [
      'retries, limits of time, titles and when to save',
      [
        { ...a, name: 'First', retry: { max_attempts: 3 }, timeout: '1m', checkpoint: true, description: 'x' },
        { ...b, checkpoint: true },
        c,
      ],
      ['b', 'c'],
    ],
  ])('[workflow.10] %s may change', async (_, changed, ran) => {
    const { process, sessionId, calls } = await stopped();
    const result = await process().run({ workflow: flow(...changed), sessionId });
    expect(result.status).toBe('completed');
    expect(calls).toEqual(ran);
    expect((await process().manager.get(result.checkpointId))?.fingerprint).toEqual({
      workflow: 'flow',
      digest: fingerprintOf(flow(...changed)).digest,
    });
  });

  test('[workflow.10] what ended after the last checkpoint counts as begun, and so does what was running', async () => {
    for (const [changed, step] of [
      [[{ ...a, input: 9 }, b, c], 'a'],
      [[a, { ...b, input: 9 }, c], 'b'],
    ] as const) {
      const world = createWorld();
      const hanging: StepFunction = (input, context) => (context.step === 'b' ? new Promise(() => undefined) : input);
      const { manager } = world.process();
      const crashed = new WorkflowExecutor({ manager, registry: { functions: { f: hanging } } });
      crashed.run({ workflow: flow(a, b, c), sessionId: 's' }).catch(() => undefined);
      await world.clock.settle();
      world.clock.skip(31_000);
      await expect(world.process().run({ workflow: flow(...changed), sessionId: 's' })).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        details: { step },
      });
      expect(world.calls).toEqual([]);
    }
  });

  test('[workflow.10] onDifference: accept keeps results as they are', async () => {
    const { process, sessionId, calls } = await stopped();
    const changed = flow({ ...a, input: 9 }, { ...b, input: 8 }, c);
    const result = await process().run({ workflow: changed, sessionId, onDifference: 'accept' });
    expect(result.steps.map(({ path, output }) => [path, output])).toEqual([
      ['a', 1],
      ['b', 8],
      ['c', 3],
    ]);
    expect(calls).toEqual(['b', 'c']);
  });

  test('[workflow.10] a change inside a sub-workflow is a change', async () => {
    const sub = (input: number) =>
      defineWorkflow({ workflow: { name: 'sub' }, steps: [{ id: 'x', function: 'f', input }, b] });
    const whole = flow({ id: 's', workflow: 'sub' });
    const world = createWorld();
    world.stop('s/b');
    const { sessionId } = await world.process([], { sub: sub(1) }).run({ workflow: whole });
    world.stop('');
    const changed = world.process([], { sub: sub(2) }).run({ workflow: whole, sessionId });
    await expect(changed).rejects.toMatchObject({ details: { step: 's/x' } });
    const same = await world.process([], { sub: sub(1) }).run({ workflow: whole, sessionId });
    expect(same.status).toBe('completed');
  });
});

describe('migrations', () => {
  const from = fingerprintOf(flow(a, b, c)).digest;
  const renamed = flow({ id: 'alpha', function: 'g', input: 9 }, { ...b, id: 'beta' }, c);

  test('[workflow.10] a declared migration moves results to their new steps', async () => {
    const { process, sessionId, calls } = await stopped();
    const migration: WorkflowMigration = { workflow: 'flow', from, steps: { a: 'alpha', b: 'beta' } };
    const result = await process([migration]).run({ workflow: renamed, sessionId });
    expect(result.steps.map(({ path, output }) => [path, output])).toEqual([
      ['alpha', 1],
      ['beta', 2],
      ['c', 3],
    ]);
    expect(calls).toEqual(['beta', 'c']);
    const triggers = (await process().manager.list({ sessionId }, { order: 'oldest' })).checkpoints.map(
      ({ trigger }) => trigger,
    );
    expect(triggers).toContain('workflow_migrated');
  });

  test('[workflow.10] a result can be forgotten, so that its step runs again', async () => {
    const { process, sessionId, calls } = await stopped();
    const changed = flow({ ...a, input: 9 }, b, c);
    const migration: WorkflowMigration = { workflow: 'flow', from, steps: { a: null } };
    const result = await process([migration]).run({ workflow: changed, sessionId });
    expect(result.steps[0]).toMatchObject({ path: 'a', output: 9 });
    expect(calls).toEqual(['a', 'b', 'c']);
  });

  test.each<[what: string, steps: WorkflowMigration['steps'], problem: string]>([
    ['to no step', { a: 'alhpa', b: 'beta' }, 'moves step "a" to "alhpa", which the workflow does not have.'],
    ['onto each other', { a: 'beta', b: 'beta' }, 'moves step "a" to "beta", to which "b" belongs.'],
    ['to what is no name', { a: 5 as unknown as string }, 'must be a string'],
  ])('[workflow.10] a migration that moves results %s is refused, and nothing runs', async (_, steps, problem) => {
    const { process, sessionId, calls } = await stopped();
    const run = async () => process([{ workflow: 'flow', from, steps }]).run({ workflow: renamed, sessionId });
    await expect(run()).rejects.toThrow(problem);
    expect(calls).toEqual([]);
  });

  test('[workflow.10] what a migration does not mention is refused', async () => {
    const { process, sessionId, calls } = await stopped();
    const migration: WorkflowMigration = { workflow: 'flow', from, steps: { b: 'beta' } };
    await expect(process([migration]).run({ workflow: renamed, sessionId })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    });
    expect(calls).toEqual([]);
  });

  test('[workflow.10] what ended after the last checkpoint is moved too; what was running must end first', async () => {
    const world = createWorld();
    const hanging: StepFunction = (input, context) => (context.step === 'b' ? new Promise(() => undefined) : input);
    const crashed = new WorkflowExecutor({ manager: world.process().manager, registry: { functions: { f: hanging } } });
    crashed.run({ workflow: flow(a, b, c), sessionId: 's' }).catch(() => undefined);
    await world.clock.settle();
    world.clock.skip(31_000);
    const both: WorkflowMigration = { workflow: 'flow', from, steps: { a: 'alpha', b: 'beta' } };
    await expect(world.process([both]).run({ workflow: renamed, sessionId: 's' })).rejects.toThrow(
      /"b" of workflow "flow" was running/,
    );
    const first: WorkflowMigration = { workflow: 'flow', from, steps: { a: 'alpha', b: 'b' } };
    const half = flow({ id: 'alpha', function: 'f', input: 1 }, b, c);
    const result = await world.process([first]).run({ workflow: half, sessionId: 's' });
    expect(result.steps.map(({ path }) => path)).toEqual(['alpha', 'b', 'c']);
    expect(world.calls).toEqual(['b', 'c']);
  });

  test('[workflow.10] an open request moves with its step', async () => {
    const world = createWorld();
    const ask = (id: string): StepDefinition => ({ id, approval: { message: 'Well?' } });
    const { sessionId } = await world.process().run({ workflow: flow(ask('old')) });
    const migration = { workflow: 'flow', from: fingerprintOf(flow(ask('old'))).digest, steps: { old: 'new' } };
    const executor = world.process([migration]);
    const workflow = flow(ask('new'));
    expect(await executor.run({ workflow, sessionId })).toMatchObject({
      status: 'waiting',
      pending: { approvals: [{ id: 'new' }] },
    });
    await executor.answer({ sessionId, requestId: 'new', answer: 'approve', by: 'Ann' });
    expect(await executor.run({ workflow, sessionId })).toMatchObject({ status: 'completed' });
  });
});
