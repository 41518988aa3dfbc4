import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../../test/support/clock.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import type { StepDefinition } from '../definition/definition-schema.ts';
import { defineWorkflow } from '../definition/parse-workflow.ts';
import type { StepFunction } from '../definition/registry.ts';
import type { WorkflowExecutorOptions } from '../executor-options.ts';
import { WorkflowExecutor } from '../workflow-executor.ts';

const flow = (...steps: StepDefinition[]) => defineWorkflow({ workflow: { name: 'flow' }, steps });
const echo = (input: unknown): unknown => input;

/** Processes that share a storage and a clock. */
function createWorld(inner: ChunkStorage = new InMemoryCheckpointStorage()) {
  const clock = new TestClock();
  const storage = clock.watch(inner);
  const calls: string[] = [];
  const noted: StepFunction = (input, { step }) => {
    calls.push(step);
    return input;
  };
  const process = (options: Partial<WorkflowExecutorOptions> = {}): WorkflowExecutor => {
    const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
    return new WorkflowExecutor({ manager, registry: { functions: { f: noted } }, ...options });
  };
  return { clock, calls, process };
}

describe('approvals', () => {
  const workflow = flow(
    { id: 'quote', function: 'f', input: { amount: 40 } },
    {
      id: 'ok',
      approval: { message: 'Pay {{ steps.quote.output.amount }}?', options: ['approve', 'later', 'reject'] },
    },
    { id: 'pay', function: 'f', input: '{{ steps.ok.output.by }} {{ steps.ok.output.value.note }}' },
  );

  test.each(STORAGES.filter(([name]) => name !== 'postgres'))(
    '[run.1] a request is in the checkpoint, is still there days later in another process, and is asked once (%s)',
    async (_, create) => {
      const { storage, reopen } = create();
      const world = createWorld(storage);
      const first = await world.process().run({ workflow, sessionId: 's' });
      const request = {
        id: 'ok',
        path: 'ok',
        message: 'Pay 40?',
        options: ['approve', 'later', 'reject'],
        askedAtMs: world.clock.now(),
        onTimeout: 'wait',
      };
      expect(first).toMatchObject({ status: 'waiting', pending: { approvals: [request] } });
      expect(first.wakeAtMs).toBeUndefined();
      world.clock.skip(3 * 86_400_000);
      const manager = new CheckpointManager({ storage: reopen?.() ?? storage, now: world.clock.now });
      const later = new WorkflowExecutor({ manager, registry: { functions: { f: echo } } });
      expect(await later.pending({ sessionId: 's' })).toEqual([request]);
      expect(await later.run({ workflow, sessionId: 's' })).toEqual(first);
      await later.answer({ sessionId: 's', requestId: 'ok', answer: 'approve', by: 'Ann', value: { note: 'soon' } });
      expect(await later.pending({ sessionId: 's' })).toEqual([]);
      const done = await later.run({ workflow, sessionId: 's' });
      expect(done).toMatchObject({ status: 'completed', output: 'Ann soon', pending: { approvals: [] } });
      expect(world.calls).toEqual(['quote']);
      expect((await manager.verify()).findings).toEqual([]);
      await manager.close();
      await storage.close();
    },
  );

  test('[run.1] a request that was answered is not asked again after a crash', async () => {
    const world = createWorld();
    await world.process().run({ workflow, sessionId: 's' });
    await world.process().answer({ sessionId: 's', requestId: 'ok', answer: 'later', by: 'Ann' });
    const hanging = world.process({ registry: { functions: { f: () => new Promise(() => undefined) } } });
    hanging.run({ workflow, sessionId: 's' }).catch(() => undefined);
    await world.clock.settle();
    world.clock.skip(31_000);
    const { status, steps } = await world.process().run({ workflow, sessionId: 's' });
    expect([status, steps[1]]).toMatchObject([
      'completed',
      { path: 'ok', output: { approved: true, answer: 'later', by: 'Ann' } },
    ]);
  });

  test('[run.1] no means no: the run fails for good, and asks nobody again', async () => {
    const world = createWorld();
    const executor = world.process();
    await executor.run({ workflow, sessionId: 's' });
    await executor.answer({ sessionId: 's', requestId: 'ok', answer: 'reject', by: 'Ann' });
    for (let times = 0; times < 2; times++) {
      expect(await executor.run({ workflow, sessionId: 's' })).toMatchObject({
        status: 'failed',
        failure: {
          path: 'ok',
          isFinal: true,
          error: { name: 'ApprovalRejected', message: '"ok" was rejected by Ann.' },
        },
        pending: { approvals: [] },
      });
    }
    expect(world.calls).toEqual(['quote']);
  });

  test('[run.1] a workflow that wants to know goes on after a no', async () => {
    const asking = flow(
      { id: 'ok', approval: { message: 'Well?' }, on_error: 'continue' },
      { id: 'pay', function: 'f', when: 'steps.ok.output.approved' },
      { id: 'tell', function: 'f', when: 'not steps.ok.output.approved', input: 'no, said {{ steps.ok.output.by }}' },
    );
    const executor = createWorld().process();
    await executor.run({ workflow: asking, sessionId: 's' });
    await executor.answer({ sessionId: 's', requestId: 'ok', answer: 'reject', by: 'Ann' });
    expect(await executor.run({ workflow: asking, sessionId: 's' })).toMatchObject({
      status: 'completed',
      output: 'no, said Ann',
    });
  });

  test('[run.1] other branches go on while a person is asked, and an answer is taken while they do', async () => {
    const world = createWorld();
    const open = { release: (): void => undefined };
    const slow: StepFunction = () =>
      new Promise<void>((resolve) => {
        open.release = resolve;
      });
    const executor = world.process({
      registry: { functions: { slow, f: () => world.calls.push('next') } },
    });
    const parallel = flow(
      { id: 'slow', function: 'slow', needs: [] },
      { id: 'ok', approval: { message: 'Well?' }, needs: [] },
      { id: 'next', function: 'f', needs: ['ok'] },
    );
    const running = executor.run({ workflow: parallel, sessionId: 's' });
    await world.clock.settle();
    await executor.answer({ sessionId: 's', requestId: 'ok', answer: 'approve', by: 'Ann' });
    await world.clock.pass(1_000);
    expect(world.calls).toEqual(['next']);
    open.release();
    expect(await running).toMatchObject({ status: 'completed' });
  });

  test('[run.1] each turn of a loop asks on its own', async () => {
    const executor = createWorld().process();
    const each = flow({
      id: 'ok',
      approval: { message: 'Send {{ item }}?' },
      for_each: { items: '{{ input }}', concurrency: 3 },
    });
    const first = await executor.run({ workflow: each, input: ['a', 'b'], sessionId: 's' });
    expect(first.pending.approvals.map(({ id, message }) => [id, message])).toEqual([
      ['ok[0]', 'Send a?'],
      ['ok[1]', 'Send b?'],
    ]);
    await executor.answer({ sessionId: 's', requestId: 'ok[1]', answer: 'approve', by: 'Bo' });
    const second = await executor.run({ workflow: each, sessionId: 's' });
    expect(second.pending.approvals.map(({ id }) => id)).toEqual(['ok[0]']);
    await executor.answer({ sessionId: 's', requestId: 'ok[0]', answer: 'approve', by: 'Ann' });
    const { output } = await executor.run({ workflow: each, sessionId: 's' });
    expect(output).toMatchObject([{ by: 'Ann' }, { by: 'Bo' }]);
  });
});

describe('answers', () => {
  const workflow = flow({ id: 'ok', approval: { message: 'Well?' } });

  test('[run.1] what cannot be an answer is refused, and says what can', async () => {
    const executor = createWorld().process();
    await executor.run({ workflow, sessionId: 's' });
    const give = (requestId: string, answer: string, sessionId = 's') =>
      executor.answer({ sessionId, requestId, answer, by: 'Ann' });
    await expect(give('ok', 'aprove')).rejects.toThrow('Did you mean "approve"? It takes: approve, reject.');
    await expect(give('okay', 'approve')).rejects.toMatchObject({ code: 'NOT_FOUND', details: { known: ['ok'] } });
    await expect(give('ok', 'approve', 'nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await executor.pending({ sessionId: 's' })).toHaveLength(1);
  });

  test('[run.1] a fork of a run asks for itself', async () => {
    const executor = createWorld().process();
    const { checkpointId } = await executor.run({ workflow, sessionId: 's' });
    await executor.manager.fork(checkpointId, { branch: 'what-if' });
    await executor.answer({ sessionId: 's', requestId: 'ok', answer: 'approve', by: 'Ann' });
    expect(await executor.pending({ sessionId: 's', branch: 'what-if' })).toHaveLength(1);
    await executor.answer({ sessionId: 's', branch: 'what-if', requestId: 'ok', answer: 'reject', by: 'Bo' });
    expect(await executor.run({ workflow, sessionId: 's' })).toMatchObject({ status: 'completed' });
  });
});

describe('nobody answers', () => {
  test.each([
    ['reject', { status: 'failed', failure: { error: { message: '"ok" was rejected by timeout.' } } }],
    ['approve', { status: 'completed', output: { approved: true, answer: 'approve', by: 'timeout' } }],
    ['wait', { status: 'waiting', pending: { approvals: [{ id: 'ok' }] } }],
  ] as const)('[workflow.9] on_timeout: %s', async (policy, expected) => {
    const world = createWorld();
    const workflow = flow({ id: 'ok', approval: { message: 'Well?', timeout: '1d', on_timeout: policy } });
    const deadline = world.clock.now() + 86_400_000;
    const ask = () => world.process().run({ workflow, sessionId: 's' });
    const first = await ask();
    expect(first).toMatchObject({ status: 'waiting', pending: { approvals: [{ deadlineMs: deadline }] } });
    expect(first.wakeAtMs).toBe(policy === 'wait' ? undefined : deadline);
    world.clock.skip(86_399_999);
    expect((await ask()).status).toBe('waiting');
    world.clock.skip(1);
    expect(await ask()).toMatchObject(expected);
  });

  test('[workflow.9] a person who was faster than the policy is heard, and one who was slower is told', async () => {
    const world = createWorld();
    const workflow = flow({ id: 'ok', approval: { message: 'Well?', timeout: '1d', on_timeout: 'reject' } });
    const executor = world.process();
    const answer = (sessionId: string) => executor.answer({ sessionId, requestId: 'ok', answer: 'approve', by: 'Ann' });
    for (const sessionId of ['fast', 'slow', 'unread']) await executor.run({ workflow, sessionId });
    await answer('fast');
    world.clock.skip(86_400_000);
    await expect(answer('unread')).rejects.toMatchObject({ code: 'CONFLICT', details: { answer: 'reject' } });
    expect(await executor.run({ workflow, sessionId: 'unread' })).toMatchObject({ status: 'failed' });
    expect(await executor.run({ workflow, sessionId: 'fast' })).toMatchObject({ status: 'completed' });
    expect(await executor.run({ workflow, sessionId: 'slow' })).toMatchObject({ status: 'failed' });
    await expect(answer('slow')).rejects.toThrow('already answered by timeout');
  });
});

describe('operations', () => {
  const workflow = flow(
    { id: 'search', function: 'f', operation: 'web_search' },
    { id: 'run', function: 'f', operation: 'code_execution' },
  );

  test('[workflow.13] an operation that needs it waits for a person; others do not', async () => {
    const world = createWorld();
    const executor = world.process({
      humanInTheLoop: { require_approval_for: ['code_execution'], trusted_operations: ['web_search'] },
    });
    const first = await executor.run({ workflow, sessionId: 's' });
    expect(first.pending.approvals).toMatchObject([
      { id: 'run?code_execution', message: 'May "run" do code_execution?' },
    ]);
    expect(world.calls).toEqual(['search']);
    await executor.answer({ sessionId: 's', requestId: 'run?code_execution', answer: 'approve', by: 'Ann' });
    expect((await executor.run({ workflow, sessionId: 's' })).status).toBe('completed');
    expect(world.calls).toEqual(['search', 'run']);
  });

  test('[workflow.13] operations may be patterns, as in a fleet; what is trusted is not asked for', async () => {
    const files = flow(
      { id: 'list', function: 'f', operation: 'files_list' },
      { id: 'delete', function: 'f', operation: 'files_delete' },
    );
    const world = createWorld();
    const humanInTheLoop = { require_approval_for: ['files_*'], trusted_operations: ['files_list'] };
    const { pending } = await world.process({ humanInTheLoop }).run({ workflow: files });
    expect([world.calls, pending.approvals]).toMatchObject([['list'], [{ id: 'delete?files_delete' }]]);
  });

  test('[workflow.13] auto_reject_on_timeout answers for those who do not', async () => {
    const world = createWorld();
    const settings = { require_approval_for: ['code_execution'], approval_timeout_seconds: 300 };
    for (const auto_reject_on_timeout of [false, true]) {
      const executor = world.process({ humanInTheLoop: { ...settings, auto_reject_on_timeout } });
      const { sessionId } = await executor.run({ workflow });
      world.clock.skip(300_000);
      expect((await executor.run({ workflow, sessionId })).status).toBe(auto_reject_on_timeout ? 'failed' : 'waiting');
    }
    expect(world.calls).toEqual(['search', 'search']);
  });

  test('[workflow.13] enabled: false asks nobody; an operation in both lists is refused', async () => {
    const world = createWorld();
    const lists = { require_approval_for: ['code_execution'], trusted_operations: ['code_execution'] };
    const off = world.process({ humanInTheLoop: { enabled: false, require_approval_for: ['code_execution'] } });
    expect((await off.run({ workflow })).status).toBe('completed');
    expect(() => world.process({ humanInTheLoop: lists })).toThrow(
      /"code_execution" is in require_approval_for and in trusted/,
    );
  });
});
