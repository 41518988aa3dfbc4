import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { StepDefinition } from './definition/definition-schema.ts';
import { defineWorkflow, parseWorkflow } from './definition/parse-workflow.ts';
import type { StepContext, WorkflowRegistry } from './definition/registry.ts';
import { WorkflowExecutor } from './workflow-executor.ts';

type Given = Omit<WorkflowRegistry, 'functions'> & {
  readonly functions?: { readonly [name: string]: (input: never, context: StepContext) => unknown };
  readonly clock?: TestClock;
};

function setUp(steps: readonly StepDefinition[], { clock, ...registry }: Given = {}) {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({
    storage: clock === undefined ? storage : clock.watch(storage),
    ...(clock !== undefined && { now: clock.now, setTimer: clock.setTimer }),
  });
  const executor = new WorkflowExecutor({ manager, registry });
  const workflow = defineWorkflow({ workflow: { name: 'test' }, steps: [...steps] });
  return { manager, executor, workflow, run: (input?: unknown) => executor.run({ workflow, input }) };
}

const echo = (input: unknown): unknown => input;

describe('running', () => {
  test('[workflow.3] steps run in order, members of a group at the same time, and outputs go where they are referred to', async () => {
    const order: string[] = [];
    let open = 0;
    let most = 0;
    const work = async (name: string): Promise<string> => {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setImmediate(resolve));
      open--;
      order.push(name);
      return `${name}!`;
    };
    const { run } = setUp(
      [
        { id: 'a', function: 'work', input: 'a' },
        {
          id: 'group',
          parallel: [
            { id: 'b', function: 'work', input: 'b' },
            { id: 'c', function: 'work', input: 'c' },
          ],
        },
        {
          id: 'd',
          function: 'echo',
          input: { group: '{{ steps.group.output }}', text: '{{ steps.b.output }} {{ input.x }}' },
        },
      ],
      { functions: { work, echo } },
    );
    const result = await run({ x: 1 });
    expect(result).toMatchObject({
      status: 'completed',
      output: { group: { b: 'b!', c: 'c!' }, text: 'b! 1' },
      pending: { approvals: [], timers: [] },
    });
    expect(order[0]).toBe('a');
    expect(most).toBe(2);
    expect(result.steps.map(({ path, status }) => `${path} ${status}`).sort()).toEqual([
      'a done',
      'b done',
      'c done',
      'd done',
      'group done',
    ]);
  });

  test('[workflow.3] a step without an input gets the output of what it needs, or the input of the workflow', async () => {
    const { run } = setUp(
      [
        { id: 'a', function: 'echo' },
        { id: 'b', function: 'echo' },
        { id: 'c', function: 'echo', needs: ['a', 'b'] },
      ],
      { functions: { echo } },
    );
    expect((await run(7)).output).toEqual({ a: 7, b: 7 });
  });

  test('[workflow.3] no more steps run at the same time than the executor is told', async () => {
    let open = 0;
    let most = 0;
    const { manager, workflow } = setUp([
      { id: 'g', parallel: Array.from({ length: 9 }, (_, at) => ({ id: `s${at}`, function: 'slow' })) },
    ]);
    const slow = async (): Promise<void> => {
      most = Math.max(most, ++open);
      await new Promise((resolve) => setImmediate(resolve));
      open--;
    };
    const executor = new WorkflowExecutor({ manager, registry: { functions: { slow } }, maxConcurrency: 3 });
    expect((await executor.run({ workflow })).status).toBe('completed');
    expect(most).toBe(3);
    expect(() => new WorkflowExecutor({ manager, registry: {}, maxConcurrency: 0 })).toThrow(/maxConcurrency/);
  });

  test('[workflow.5] a step whose condition does not hold is skipped, and what follows runs', async () => {
    const { run } = setUp(
      [
        { id: 'a', function: 'echo', when: 'input.go' },
        { id: 'g', when: 'input.go', parallel: [{ id: 'b', function: 'echo' }] },
        { id: 'c', function: 'echo', input: { a: '{{ steps.a.status }}', out: '{{ steps.a.output }}' } },
      ],
      { functions: { echo } },
    );
    const { output, steps } = await run({ go: false });
    expect(output).toEqual({ a: 'skipped', out: null });
    expect(steps.map(({ path, status }) => `${path} ${status}`)).toEqual([
      'a skipped',
      'b skipped',
      'g skipped',
      'c done',
    ]);
    expect((await run({ go: true })).steps.every(({ status }) => status === 'done')).toBe(true);
  });

  test.each<[what: string, items: StepDefinition['for_each']]>([
    ['a list', [1, '{{ input[1] }}', 3]],
    ['a reference', '{{ input }}'],
    ['items', { items: [1, '{{ input[1] }}', 3], concurrency: 2 }],
  ])('[workflow.6] for_each takes %s, in code and in YAML', async (_, items) => {
    const steps: StepDefinition[] = [{ id: 'each', function: 'f', for_each: items, input: '{{ item }}' }];
    const functions = { f: (item: number) => item * 2 };
    const { executor } = setUp(steps, { functions });
    for (const workflow of [defineWorkflow({ steps }), parseWorkflow(JSON.stringify({ steps }))])
      expect(await executor.run({ workflow, input: [1, 2, 3] })).toMatchObject({
        status: 'completed',
        output: [2, 4, 6],
      });
  });

  test('[workflow.3] many steps at the same time warn of nothing', async () => {
    const warnings: string[] = [];
    const note = ({ message }: Error): unknown => warnings.push(message);
    process.on('warning', note);
    const f = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const items = Array.from({ length: 20 }, (_, at) => at);
    const { run } = setUp([{ id: 'all', function: 'f', for_each: { items, concurrency: 20 } }], { functions: { f } });
    expect((await run()).status).toBe('completed');
    await f();
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  test('[workflow.6] for_each does something for every item, a few at a time, and answers in the order of the items', async () => {
    let open = 0;
    let most = 0;
    const slow = async ({ item, index }: { item: number; index: number }): Promise<string> => {
      most = Math.max(most, ++open);
      for (let turns = 5 - item; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      open--;
      return `${index}:${item}`;
    };
    const { run } = setUp(
      [
        {
          id: 'each',
          function: 'slow',
          for_each: { items: '{{ input.items }}', concurrency: 2 },
          input: { item: '{{ item }}', index: '{{ index }}' },
        },
      ],
      { functions: { slow } },
    );
    expect((await run({ items: [1, 2, 3, 4, 5] })).output).toEqual(['0:1', '1:2', '2:3', '3:4', '4:5']);
    expect(most).toBe(2);
    expect((await run({ items: [] })).output).toEqual([]);
    expect(await run({ items: 'none' })).toMatchObject({
      status: 'failed',
      failure: { path: 'each', error: { message: 'for_each needs a list; found "none".' } },
    });
  });

  test('[workflow.6] repeat goes on until its condition holds; reaching the limit is a failure', async () => {
    const add = ({ previous, by }: { previous: number | null; by: number }): number => (previous ?? 0) + by;
    const { run } = setUp(
      [
        {
          id: 'sum',
          function: 'add',
          input: { previous: '{{ previous }}', by: '{{ iteration }}' },
          repeat: { until: 'output >= input.goal', limit: 4 },
        },
      ],
      { functions: { add } },
    );
    expect((await run({ goal: 6 })).output).toBe(6);
    expect(await run({ goal: 99 })).toMatchObject({
      status: 'failed',
      failure: { path: 'sum', error: { name: 'RepeatLimitError' } },
    });
  });

  test('[workflow.7] a failing step is tried again after growing pauses, with the same key', async () => {
    const clock = new TestClock();
    const seen: { at: number; attempt: number; key: string }[] = [];
    const flaky = (_: unknown, { attempt, idempotencyKey }: StepContext): string => {
      seen.push({ at: clock.now(), attempt, key: idempotencyKey });
      if (attempt < 4) throw new Error(`not yet ${attempt}`);
      return 'at last';
    };
    const retry = { max_attempts: 4, delay: '1s', factor: 3, max_delay: '5s' };
    const { run } = setUp([{ id: 'a', function: 'flaky', retry }], { functions: { flaky }, clock });
    const begunAt = clock.now();
    const running = run();
    await clock.pass(60_000);
    expect(await running).toMatchObject({ status: 'completed', output: 'at last', steps: [{ attempts: 4 }] });
    expect(seen.map(({ at, attempt }) => [at - begunAt, attempt])).toEqual([
      [0, 1],
      [1_000, 2],
      [4_000, 3],
      [9_000, 4],
    ]);
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
  });

  test('[workflow.7] after the last attempt it has failed; an error that says it cannot be retried is not', async () => {
    const clock = new TestClock();
    let calls = 0;
    const broken = (isFinal: boolean): never => {
      calls++;
      throw Object.assign(new TypeError('broken'), { code: 'E_BROKEN', ...(isFinal && { retryable: false }) });
    };
    const retry = { max_attempts: 3 };
    const { run } = setUp([{ id: 'a', function: 'broken', retry }], { functions: { broken }, clock });
    const often = run(false);
    await clock.pass(60_000);
    expect(await often).toMatchObject({
      status: 'failed',
      failure: { path: 'a', attempts: 3, error: { name: 'TypeError', message: 'broken', code: 'E_BROKEN' } },
    });
    expect(calls).toBe(3);
    expect(await run(true)).toMatchObject({ failure: { attempts: 1 } });
    expect(calls).toBe(4);
  });

  test('[workflow.7] a step that takes too long is aborted and has failed, also if it does not listen', async () => {
    const clock = new TestClock();
    const reasons: unknown[] = [];
    const listens = (_: unknown, { signal }: StepContext): Promise<never> =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(reasons.push(signal.reason))));
    const deaf = (): Promise<never> => new Promise(() => undefined);
    for (const [name, timeout] of [
      ['listens', { timeout: '2s' }],
      ['deaf', { timeout: 2_000 }],
    ] as const) {
      const { run } = setUp([{ id: 'a', function: name, ...timeout }], { functions: { listens, deaf }, clock });
      const running = run();
      await clock.pass(2_000);
      expect(await running).toMatchObject({
        failure: { error: { name: 'TimeoutError', message: 'Step "a" took longer than 2000 ms.' } },
      });
    }
    expect(reasons).toHaveLength(1);
  });

  test('[workflow.7] a result that is no data is a failure that is not tried again', async () => {
    let calls = 0;
    const odd = (): unknown => ({ at: { calls: ++calls, call: () => undefined } });
    const { run } = setUp([{ id: 'a', function: 'odd', retry: { max_attempts: 3 } }], { functions: { odd } });
    expect(await run()).toMatchObject({
      status: 'failed',
      failure: { error: { message: expect.stringMatching(/\.at\.call\b/) } },
    });
    expect(calls).toBe(1);
  });

  test('[workflow.5] on_error: stop begins nothing new, but lets end what has begun', async () => {
    const ran: string[] = [];
    const work = async (name: string): Promise<void> => {
      for (let turns = name === 'slow' ? 20 : 1; turns > 0; turns--)
        await new Promise((resolve) => setImmediate(resolve));
      ran.push(name);
      if (name === 'bad') throw new Error('bad');
    };
    const { run } = setUp(
      [
        {
          id: 'g',
          parallel: [
            { id: 'bad', function: 'work', input: 'bad' },
            { id: 'slow', function: 'work', input: 'slow' },
          ],
        },
        { id: 'afterwards', function: 'work', input: 'afterwards', needs: 'slow' },
      ],
      { functions: { work } },
    );
    const result = await run();
    expect(result).toMatchObject({ status: 'failed', failure: { path: 'bad' } });
    expect(ran).toEqual(['bad', 'slow']);
    expect(result.steps.map(({ path }) => path)).toEqual(['slow']);
  });

  test('[workflow.5] on_error: continue goes on; later steps can look at the error', async () => {
    const { run } = setUp(
      [
        { id: 'a', function: 'bad', on_error: 'continue' },
        { id: 'b', function: 'echo', when: 'steps.a.status == "failed"', input: '{{ steps.a.error.message }}' },
      ],
      { functions: { echo, bad: () => Promise.reject(new Error('oh')) } },
    );
    expect(await run()).toMatchObject({
      status: 'completed',
      output: 'oh',
      steps: [{ path: 'a', status: 'failed' }, {}],
    });
  });

  test('[workflow.5] on_error: goto skips what lies between', async () => {
    const steps: StepDefinition[] = [
      { id: 'a', function: 'maybe', on_error: { goto: 'undo' } },
      { id: 'b', function: 'echo' },
      { id: 'c', function: 'echo' },
      { id: 'undo', function: 'echo', when: 'steps.a.status == "failed"', input: 'undone' },
    ];
    const maybe = (input: { fail: boolean }): unknown => {
      if (input.fail) throw new Error('oh');
      return 'fine';
    };
    const { run } = setUp(steps, { functions: { echo, maybe } });
    const statuses = async (fail: boolean) => (await run({ fail })).steps.map(({ status }) => status);
    expect(await statuses(true)).toEqual(['failed', 'skipped', 'skipped', 'done']);
    expect(await statuses(false)).toEqual(['done', 'done', 'done', 'skipped']);
  });

  test('[workflow.6] a sub-workflow has steps, input and output of its own, also inside a loop', async () => {
    const double = defineWorkflow({
      workflow: { name: 'double', output: { twice: '{{ steps.add.output }}', of: '{{ input }}' } },
      steps: [{ id: 'add', function: 'add', input: ['{{ input }}', '{{ input }}'] }],
    });
    const add = ([a, b]: [number, number]): number => a + b;
    const { run } = setUp([{ id: 'each', workflow: 'double', for_each: '{{ input }}', input: '{{ item }}' }], {
      functions: { add },
      workflows: { double },
    });
    const { output, steps } = await run([1, 2]);
    expect(output).toEqual([
      { twice: 2, of: 1 },
      { twice: 4, of: 2 },
    ]);
    expect(steps.map(({ path }) => path)).toEqual(['each[0]/add', 'each[0]', 'each[1]/add', 'each[1]', 'each']);
  });

  test('[workflow.12] a checkpoint says after which step it was taken, and the result where to resume after each', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const process = () => new WorkflowExecutor({ manager, registry: { functions: { f: (input: unknown) => input } } });
    const workflow = defineWorkflow({
      steps: [
        { id: 'a', function: 'f', checkpoint: true },
        { id: 'b', function: 'f', checkpoint: true },
        { id: 'c', function: 'f', checkpoint: false },
      ],
    });
    const { steps, sessionId } = await process().run({ workflow, metadata: { order: 7 } });
    const found = await Promise.all(steps.map(({ checkpointId: id = '' }) => manager.get(id)));
    expect(found.map((checkpoint) => checkpoint?.metadata)).toEqual([
      { order: 7, step: 'a' },
      { order: 7, step: 'b' },
      undefined,
    ]);
    expect((await process().run({ workflow, sessionId })).steps).toEqual(steps);
    const [first, second] = steps;
    const resumed = await process().run({ workflow, checkpointId: first?.checkpointId ?? '' });
    expect(resumed.steps[0]).toEqual(first);
    expect(resumed.steps[1]?.checkpointId).not.toBe(second?.checkpointId);
  });

  test('[workflow.13] a StandardAgent can be the agent of a step, and knows of no other', async () => {
    const seen: unknown[] = [];
    const model = scriptedModel(
      ({ messages }) => {
        seen.push(messages.map(({ content }) => content));
        return messages.length === 1 ? 'Hello from helper' : 'too much';
      },
      { id: 'm' },
    );
    const helper = new StandardAgent({ name: 'helper', systemMessage: 'You help.', model });
    const before = helper.saveState();
    const { run } = setUp(
      [
        { id: 'a', agent: 'helper' },
        { id: 'b', agent: 'helper' },
      ],
      { agents: { helper } },
    );
    expect((await run('hi')).output).toBe('Hello from helper');
    expect(seen).toEqual([['hi'], ['Hello from helper']]);
    // A step leaves nothing behind in the agent but what it cost and that it is not new any more.
    const { totals, status } = before;
    expect({ ...helper.saveState(), totals, status }).toEqual(before);
  });

  test('[workflow.13] an agent gets a text and replies with a text', async () => {
    const prompts: string[] = [];
    const agents = {
      Plain: { reply: async (prompt: string) => `${prompts.push(prompt)} plain` },
      Rich: { reply: async (prompt: string) => ({ text: `${prompts.push(prompt)} rich`, usage: 3 }) },
    };
    const { run } = setUp(
      [
        { id: 'a', agent: 'Plain', input: { question: '{{ input }}' } },
        { id: 'b', agent: 'Rich' },
      ],
      { agents },
    );
    expect((await run('why')).output).toBe('2 rich');
    expect(prompts).toEqual(['{"question":"why"}', '1 plain']);
  });

  test('[workflow.13] a reply with content is a text; what holds none fails the step, and says what was found', async () => {
    const replies: unknown[] = [{ content: 'c' }, { answer: 'x' }, ['a'], undefined, null, 7];
    for (const reply of replies) {
      const agents = { Odd: { reply: async () => reply as string } };
      const { status, output, failure } = await setUp([{ id: 'a', agent: 'Odd', input: 'go' }], { agents }).run();
      if (reply === replies[0]) expect([status, output]).toEqual(['completed', 'c']);
      else
        expect([status, failure?.error.message]).toEqual(['failed', expect.stringContaining('must return a string')]);
    }
  });

  test('[workflow.2] names that the registry does not have are told, all of them, before anything runs', async () => {
    let calls = 0;
    const sub = defineWorkflow({ workflow: { name: 'sub' }, steps: [{ id: 'x', function: 'nothere' }] });
    const self = defineWorkflow({ workflow: { name: 'self' }, steps: [{ id: 'x', workflow: 'self' }] });
    const { run, manager } = setUp(
      [
        { id: 'a', function: 'count' },
        { id: 'b', function: 'cuont' },
        { id: 'c', agent: 'Nobody' },
        { id: 'd', workflow: 'sub' },
        { id: 'e', workflow: 'self' },
      ],
      { functions: { count: () => calls++ }, workflows: { sub, self } },
    );
    await expect(run()).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: {
        problems: [
          { path: 'b', suggestion: 'count' },
          { path: 'c', message: 'the registry has no agent "Nobody".' },
          { path: 'd/x', message: expect.stringMatching(/no function "nothere"/) },
          { path: 'e/x', message: expect.stringMatching(/inside itself/) },
        ],
      },
    });
    expect(calls).toBe(0);
    expect((await manager.stats()).sessions).toBe(0);
  });

  test('[workflow.1] a workflow is run by its object, its name in the registry, or the path of its file', async () => {
    const path = join(temporaryFolder(), 'workflow.yaml');
    writeFileSync(path, 'workflow: { checkpoint: true }\nsteps:\n  - name: only\n    function: echo\n');
    const { executor, workflow } = setUp([{ id: 'a', function: 'echo' }]);
    const named = new WorkflowExecutor({
      manager: executor.manager,
      registry: { functions: { echo }, workflows: { test: workflow } },
    });
    expect((await named.run({ workflow: 'test', input: 1 })).output).toBe(1);
    expect((await named.run({ workflow: path, input: 2 })).output).toBe(2);
    await expect(named.run({ workflow: 'tset' })).rejects.toThrow('Did you mean "test"?');
    await expect(named.run({ workflow: `${path}.yaml` })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });
});
