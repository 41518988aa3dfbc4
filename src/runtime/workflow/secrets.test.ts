import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { StepDefinition } from './definition/definition-schema.ts';
import { defineWorkflow } from './definition/parse-workflow.ts';
import type { WorkflowRegistry } from './definition/registry.ts';
import { WorkflowExecutor } from './workflow-executor.ts';

const API_KEY = 'sk_live_51Hq8Zk2Lm9Pq4Rt7';
const APPROVAL: StepDefinition = { id: 'ok', approval: { message: 'Pay?' } };
const PAY: StepDefinition = {
  id: 'pay',
  function: 'pay',
  input: { apiKey: '{{ input.apiKey }}', header: 'Bearer {{ input.apiKey }}' },
};

/** A workflow whose processes come and go; what `pay` was called with is kept. */
class Run {
  readonly clock = new TestClock();
  readonly storage = this.clock.watch(new InMemoryCheckpointStorage());
  readonly calls: unknown[] = [];
  readonly workflow: ReturnType<typeof defineWorkflow>;
  readonly registry: WorkflowRegistry;

  constructor(steps: readonly StepDefinition[], registry: WorkflowRegistry = {}) {
    this.workflow = defineWorkflow({ workflow: { name: 'pay' }, steps: [...steps] });
    const pay = (input: unknown): string => {
      this.calls.push(input);
      return 'paid';
    };
    this.registry = { ...registry, functions: { pay, ...registry.functions } };
  }

  process(registry: WorkflowRegistry = this.registry): WorkflowExecutor {
    const { now, setTimer } = this.clock;
    return new WorkflowExecutor({ manager: new CheckpointManager({ storage: this.storage, now, setTimer }), registry });
  }

  run(input?: unknown) {
    return this.process().run({ workflow: this.workflow, sessionId: 's', ...(input !== undefined && { input }) });
  }

  /** Runs until a person is asked, and approves. */
  async runAndApprove(input?: unknown): Promise<void> {
    expect((await this.run(input)).status).toBe('waiting');
    await this.process().answer({ sessionId: 's', requestId: 'ok', answer: 'approve', by: 'Ann' });
  }
}

describe('[workflow.16] a resumed run and the secrets of its input', () => {
  test('[workflow.16] uses the secrets that are given again', async () => {
    const run = new Run([APPROVAL, PAY]);
    await run.runAndApprove({ apiKey: API_KEY });
    const { status } = await run.run({ apiKey: API_KEY });
    expect({ status, calls: run.calls }).toEqual({
      status: 'completed',
      calls: [{ apiKey: API_KEY, header: `Bearer ${API_KEY}` }],
    });
  });

  test('[workflow.16] refuses another secret as another input, also when it is completed', async () => {
    const run = new Run([APPROVAL, PAY]);
    await run.runAndApprove({ apiKey: API_KEY });
    const other = { apiKey: 'sk_live_99Xx8Zk2Lm9Pq4Rt7' };
    await expect(run.run(other)).rejects.toThrow('began with another input');
    await run.run({ apiKey: API_KEY });
    await expect(run.run(other)).rejects.toThrow('began with another input');
    expect(await run.run()).toMatchObject({ status: 'completed', output: 'paid' });
  });

  test('[workflow.16] does not run a step without its secret, and runs it once the input is given', async () => {
    const run = new Run([APPROVAL, { ...PAY, retry: { max_attempts: 5, delay: '1h' }, on_error: 'continue' }]);
    await run.runAndApprove({ apiKey: API_KEY });
    const { status, failure } = await run.run();
    expect({ status, path: failure?.path, name: failure?.error.name }).toEqual({
      status: 'failed',
      path: 'pay',
      name: 'SecretLeftOutError',
    });
    expect(failure?.error.message).toMatch(/input\.apiKey is not stored.*run it again with the same input/);
    expect(run.calls).toEqual([]);
    expect(await run.run({ apiKey: API_KEY })).toMatchObject({ status: 'completed' });
    expect(run.calls).toHaveLength(1);
  });

  test.each<[string, StepDefinition, unknown]>([
    ['inside a text', { id: 'pay', function: 'pay', input: 'key={{ input.apiKey }}' }, { apiKey: API_KEY }],
    ['inside an object in a text', { id: 'pay', function: 'pay', input: 'Use {{ input }}' }, { apiKey: API_KEY }],
    ['in a call', { id: 'pay', function: 'pay', input: '{{ lower(input.apiKey) }}' }, { apiKey: API_KEY }],
    ['in a length', { id: 'pay', function: 'pay', input: '{{ input.apiKey.length }}' }, { apiKey: API_KEY }],
    [
      'in a condition',
      { id: 'pay', function: 'pay', input: 1, when: `input.apiKey == "${API_KEY}"` },
      { apiKey: API_KEY },
    ],
    [
      'in the items of a list',
      { id: 'pay', for_each: '{{ input.cards }}', function: 'pay', input: '{{ item.password }}' },
      { cards: [{ password: 'hunter2hunter2' }] },
    ],
    [
      'as a part of a string',
      { id: 'pay', function: 'pay', input: '{{ input.header }}' },
      { header: `Use ${API_KEY} now` },
    ],
    ['as an agent', { id: 'pay', agent: 'clerk', input: 'Pay with {{ input.apiKey }}' }, { apiKey: API_KEY }],
    ['in a sub-workflow', { id: 'pay', workflow: 'inner', input: { key: '{{ input.apiKey }}' } }, { apiKey: API_KEY }],
  ])('[workflow.16] does not act with what stands for a secret %s', async (_, step, input) => {
    const inner = defineWorkflow({
      workflow: { name: 'inner' },
      steps: [{ id: 'pay', function: 'pay', input: '{{ input.key }}' }],
    });
    const run: Run = new Run([APPROVAL, step], {
      workflows: { inner },
      agents: { clerk: { reply: async (prompt: string) => `${run.calls.push(prompt)}` } },
    });
    await run.runAndApprove(input);
    expect(await run.run()).toMatchObject({ status: 'failed', failure: { error: { name: 'SecretLeftOutError' } } });
    expect(run.calls).toEqual([]);
    expect(await run.run(input)).toMatchObject({ status: 'completed' });
    expect(JSON.stringify(run.calls)).not.toContain('[secret');
    expect(run.calls).toHaveLength(1);
  });

  test('[workflow.16] a retry after a kill gets the secrets that are given again, under the same key', async () => {
    const keys: string[] = [];
    const run = new Run([{ id: 'pay', for_each: '{{ input.cards }}', function: 'pay', input: '{{ item }}' }]);
    const input = { cards: [{ password: 'hunter2hunter2' }, { password: 'swordfish99' }] };
    const cutOff = (card: { password: string }, { idempotencyKey }: { idempotencyKey: string }): unknown => {
      keys.push(idempotencyKey);
      run.calls.push(card);
      return card.password === 'swordfish99' ? new Promise(() => undefined) : 'paid';
    };
    const killed = run.process({ functions: { pay: cutOff } });
    void killed.run({ workflow: run.workflow, sessionId: 's', input }).catch(() => undefined);
    await run.clock.settle();
    run.clock.skip(31_000);
    expect(await run.run()).toMatchObject({ status: 'failed', failure: { error: { name: 'SecretLeftOutError' } } });
    expect(run.calls).toHaveLength(2);
    expect(await run.run(input)).toMatchObject({ status: 'completed', output: ['paid', 'paid'] });
    expect(run.calls.slice(2)).toEqual([{ password: 'swordfish99' }]);
  });

  test('[workflow.16] a secret that a step returned stops the step that would get it after a resume', async () => {
    const login: StepDefinition = { id: 'login', function: 'login' };
    const use: StepDefinition = { id: 'use', function: 'pay', input: { with: '{{ steps.login.output }}' } };
    const run = new Run([login, APPROVAL, use], { functions: { login: () => ({ accessToken: API_KEY }) } });
    await run.runAndApprove();
    const { status, failure } = await run.run();
    expect({ status, calls: run.calls }).toEqual({ status: 'failed', calls: [] });
    expect(failure?.error.message).toMatch(/\$\.with\.accessToken of its input.*return no secrets/);
  });

  test('[workflow.16] a step that ended and one that needs no secret are not affected; nor are strings that look like marks', async () => {
    const before: StepDefinition = { id: 'before', function: 'pay', input: '{{ input.apiKey }}' };
    const after: StepDefinition = { id: 'after', function: 'pay', input: '{{ input.note }}' };
    const run = new Run([before, APPROVAL, after]);
    await run.runAndApprove({ apiKey: API_KEY, note: 'of [March]' });
    expect(await run.run()).toMatchObject({ status: 'completed' });
    expect(run.calls).toEqual([API_KEY, 'of [March]']);
    const literal = new Run([{ id: 'pay', function: 'pay', input: '{{ input }}' }]);
    expect(await literal.run('as in [secret jwt]')).toMatchObject({ status: 'completed' });
  });
});
