import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import type { StandardAgentOptions } from './agent-options.ts';
import { AgentRegistry } from './agent-registry.ts';
import { type AgentStatus, changeStatus } from './agent-state.ts';
import { UnrecordedEffects } from './effects.ts';
import { EXIT, type ReplyContext } from './reply.ts';
import { StandardAgent } from './standard-agent.ts';
import { callTool, defineTool, type Tool } from './tool.ts';

const ATTEMPT = { attempt: 1, idempotencyKey: 'key', signal: undefined };

function tool(run: Tool['run'], options: Partial<Tool> = {}): Tool {
  return defineTool({ name: 'tool', description: 'A tool.', input: z.object({ n: z.number() }), run, ...options });
}

function gate() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

describe('a tool', () => {
  test('[agent.1] whatever a tool does, its call has an outcome', async () => {
    const outcomes = {
      text: await callTool(
        tool(() => 'done'),
        { n: 1 },
        ATTEMPT,
      ),
      data: await callTool(
        tool((input) => ({ ...(input as object), big: 2n })),
        { n: 1 },
        ATTEMPT,
      ),
      nothing: await callTool(
        tool(() => undefined),
        { n: 1 },
        ATTEMPT,
      ),
      endless: await callTool(
        tool(() => Number.POSITIVE_INFINITY),
        { n: 1 },
        ATTEMPT,
      ),
      wrong: await callTool(
        tool(() => 'done'),
        { n: 'one' },
        ATTEMPT,
      ),
      throws: await callTool(
        tool(() => {
          throw new Error('broken');
        }),
        { n: 1 },
        ATTEMPT,
      ),
      hangs: await callTool(
        tool(() => new Promise(() => undefined), { timeoutMs: 20 }),
        { n: 1 },
        ATTEMPT,
      ),
      floods: await callTool(
        tool(() => 'x'.repeat(1000), { maxResultChars: 10 }),
        { n: 1 },
        ATTEMPT,
      ),
    };
    expect(outcomes).toMatchObject({
      text: { isError: false, text: 'done' },
      data: { isError: false, text: '{"n":1,"big":"2"}' },
      nothing: { isError: false, text: 'Done.' },
      endless: { isError: false, text: 'Infinity' },
      wrong: { isError: true, text: expect.stringContaining('does not fit') },
      throws: { isError: true, text: 'Error: broken', trace: expect.stringContaining('standard-agent.test') },
      hangs: { isError: true, text: 'Error: No answer within 20 ms.' },
      floods: { isError: false, text: 'xxxxxxxxxx\n[cut off: 990 of 1000 characters]' },
    });
  });

  test('[agent.1] what a tool returns is shown to the model, or why it cannot be: the tool ran', async () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    const results = [new Map([['a', new Set([1n])]]), new Map([[1, 'x']]), { error: new TypeError('odd') }, circle];
    const show = (value: unknown) =>
      callTool(
        tool(() => value),
        { n: 1 },
        ATTEMPT,
      );
    expect(await Promise.all(results.map(show))).toEqual([
      { isError: false, text: '{"a":["1"]}' },
      { isError: false, text: '[[1,"x"]]' },
      { isError: false, text: '{"error":"TypeError: odd"}' },
      {
        isError: false,
        text: expect.stringContaining('The tool ran, but its result cannot be shown: Converting circ'),
      },
    ]);
  });

  test('[agent.1] a tool is not called with what stands for a secret that was not stored', async () => {
    const inputs: unknown[] = [];
    const pay = tool((input) => inputs.push(input), { input: z.any() });
    const outcome = await callTool(pay, { card: [{ pin: new SecretRef('pin') }] }, ATTEMPT);
    expect(outcome).toMatchObject({ isError: true, text: expect.stringContaining('$.card[0].pin') });
    expect(inputs).toEqual([]);
  });

  test('[agent.1] a stopped run stops its tools', async () => {
    const stop = new AbortController();
    const call = callTool(
      tool(() => new Promise(() => undefined)),
      { n: 1 },
      { ...ATTEMPT, signal: stop.signal },
    );
    stop.abort(new Error('stopped'));
    await expect(call).rejects.toThrow('stopped');
  });

  test('[agent.1] a tool needs a name that models can say', () => {
    expect(() => tool(() => '', { name: 'two words' })).toThrow(/letters, digits/);
  });
});

function context(options: Partial<ReplyContext> = {}): ReplyContext {
  return {
    effects: new UnrecordedEffects(),
    registry: new AgentRegistry(),
    partner: 'boss',
    ask: async () => '',
    ...options,
  };
}

function agent(options: Partial<StandardAgentOptions> = {}): StandardAgent {
  const created = new StandardAgent({ name: 'ann', ...options });
  created.receive({ name: 'boss', content: 'Hello.' }, 'boss');
  return created;
}

describe('an agent', () => {
  test('[agent.3] asked again with its key, calls of tools have the keys they had, wherever they come', async () => {
    const keysOf = async (...inputs: object[]) => {
      const keys: string[] = [];
      const charge = tool((_, { idempotencyKey }) => keys.push(idempotencyKey), { input: z.any() });
      const calls = inputs.map((input) => ({ name: 'tool', input }));
      await agent({ model: scriptedModel([{ toolCalls: calls }, 'Done.']), tools: [charge] }).reply('Pay.', {
        idempotencyKey: 'K',
      });
      return keys;
    };
    const [ann, bob] = [{ to: 'Ann', amount: 500 }, { to: 'Bob' }];
    const [first, second, third] = await keysOf(ann, bob, ann);
    expect(new Set([first, second, third]).size).toBe(3);
    expect(await keysOf({ look: 1 }, bob, { amount: 500, to: 'Ann' }, ann)).toEqual([
      expect.any(String),
      second,
      first,
      third,
    ]);
  });

  test('[agent.2] says what its model says, with its tools, and keeps both in its history', async () => {
    const model = scriptedModel([{ toolCalls: [{ name: 'tool', input: { n: 4 } }] }, 'It is 16.'], { id: 'm' });
    const registry = new AgentRegistry({ models: { m: model } });
    const ann = agent({ model, tools: [tool((input) => (input as { n: number }).n ** 2)], systemMessage: 'Be brief.' });
    const outcome = await ann.respond(context({ registry }));
    expect(outcome.message?.content).toBe('It is 16.');
    expect(outcome.message?.turn?.map(({ role }) => role)).toEqual(['assistant', 'tool', 'assistant']);
    expect(ann.history('boss').map(({ name }) => name)).toEqual(['boss', 'ann']);
    expect(ann.saveState().totals).toMatchObject({ modelCalls: 2, toolCalls: 1 });
    expect(model.requests[1]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(model.requests[0]?.system).toBe('Be brief.');
  });

  test('[agent.3] an agent can be asked on its own, also after a restore, and a failure can be tried again', async () => {
    let isDown = false;
    const model = scriptedModel(
      ({ messages }) => {
        if (isDown) throw new Error('down');
        return `${messages.length} heard`;
      },
      { id: 'm' },
    );
    const make = () => new StandardAgent({ name: 'helper', model });
    const manager = new CheckpointManager({
      storage: new InMemoryCheckpointStorage(),
      agents: { StandardAgent: make },
    });
    const first = make();
    expect(await first.reply('one')).toMatchObject({ name: 'helper', content: '1 heard' });
    const helper = await manager.restore<StandardAgent>(await manager.save(first));
    const before = helper.saveState();
    isDown = true;
    await expect(helper.reply('two')).rejects.toThrow('down');
    expect(helper.saveState()).toEqual(before);
    isDown = false;
    expect(await helper.reply({ content: 'two' })).toMatchObject({ content: '3 heard' });
    expect(helper.history('user').map(({ name }) => name)).toEqual(['user', 'helper', 'user', 'helper']);
    await expect(helper.reply(5 as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('[agent.3] two replies at once to one partner are one after the other, to two they are not; each is whole', async () => {
    const started: string[] = [];
    const gates = new Map(['one', 'two', 'three'].map((asked) => [asked, { begins: gate(), ends: gate() }]));
    const model = scriptedModel(
      async ({ messages }) => {
        const asked = String(messages.at(-1)?.content);
        started.push(asked);
        gates.get(asked)?.begins.open();
        await gates.get(asked)?.ends.opened;
        if (asked === 'three') throw new Error('down');
        return `${messages.length} heard`;
      },
      { id: 'm' },
    );
    const helper = new StandardAgent({ name: 'helper', model });
    const replies = Promise.allSettled([
      helper.reply('one'),
      helper.reply('two'),
      helper.reply('three', { partner: 'ann' }),
    ]);
    for (const asked of ['three', 'one', 'two']) {
      await gates.get(asked)?.begins.opened;
      expect(helper.status).toBe('running');
      gates.get(asked)?.ends.open();
    }
    await replies;
    expect(started).toEqual(['one', 'three', 'two']);
    expect(helper.history('user').map(({ content }) => content)).toEqual(['one', '1 heard', 'two', '3 heard']);
    expect(helper.history('ann')).toEqual([]);
    expect(helper.saveState()).toMatchObject({ status: 'waiting_for_input', totals: { modelCalls: 2 } });
  });

  test('[agent.3] a restore drops the replies under way, and the agent is as the checkpoint says', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const gates = ['user', 'ann', 'late'].map((asked) => ({ asked, begins: gate(), ends: gate() }));
    const model = scriptedModel(async ({ messages }) => {
      const at = gates.find(({ asked }) => asked === messages.at(-1)?.content);
      at?.begins.open();
      await at?.ends.opened;
      if (at?.asked === 'ann') throw new Error('down');
      return 'Yes.';
    });
    const helper = new StandardAgent({ name: 'helper', model });
    helper.receive('Before.', 'user');
    helper.setStatus('running');
    const id = await manager.save(helper);
    const saved = helper.saveState();
    const replies = Promise.allSettled(['user', 'ann'].map((partner) => helper.reply(partner, { partner })));
    for (const { begins } of gates.slice(0, 2)) await begins.opened;
    await manager.restore(id, { into: helper });
    const third = helper.reply('late'); // waits for the first
    for (const { ends } of gates) ends.open();
    expect((await replies).map((outcome) => 'reason' in outcome && String(outcome.reason))).toEqual([
      expect.stringContaining('was restored while it replied, so that the reply is dropped.'),
      expect.stringContaining('down'),
    ]);
    expect((await third).content).toBe('Yes.');
    expect(helper.history('user').map(({ content }) => content)).toEqual(['Before.', 'late', 'Yes.']);
    expect([helper.history('ann'), helper.status]).toEqual([[], 'waiting_for_input']);
    await manager.restore(id, { into: helper });
    expect(helper.saveState()).toEqual(saved);
  });

  test('[agent.3] a tool that asks its own agent is told that it would wait for itself', async () => {
    const model = scriptedModel([{ toolCalls: [{ name: 'tool', input: { n: 1 } }] }, 'I see.'], { id: 'm' });
    const helper: StandardAgent = agent({ model, tools: [tool(async () => (await helper.reply('again')).content)] });
    expect(await helper.reply('one')).toMatchObject({ content: 'I see.' });
    expect(JSON.stringify(helper.history('user'))).toContain('it would wait for itself');
  });

  test('[agent.3] agents whose tools ask each other at once are told that they would wait for ever', async () => {
    const both = gate();
    const asked: string[] = [];
    const asking = (name: string, other: () => StandardAgent): StandardAgent => {
      const model = scriptedModel([{ toolCalls: [{ name: 'tool', input: { n: 1 } }] }, `${name} is done.`, 'Well.']);
      const ask = tool(async () => {
        if (asked.push(name) === 2) both.open();
        await both.opened;
        return (await other().reply('And you?')).content;
      });
      return agent({ name, model, tools: [ask] });
    };
    const ann: StandardAgent = asking('ann', () => bob);
    const bob: StandardAgent = asking('bob', () => ann);
    const replies = await Promise.all([ann.reply('Begin.'), bob.reply('Begin.')]);
    expect(replies.map(({ content }) => content)).toEqual(['ann is done.', 'bob is done.']);
    expect(JSON.stringify([ann.history('user'), bob.history('user')])).toContain('both would wait for ever');
  });

  test.each([
    ['throws null', () => Promise.reject(null), 'The model own failed: null was thrown, which is no error.'],
    ['replies null', async () => null, 'The model own replied null, without text'],
    ['replies half', async () => ({ text: 'x' }), 'The model own replied an object, without text, messages'],
  ])('[agent.3] a model that %s is told in words', async (_, reply, said) => {
    const helper = agent({ model: { id: 'own', reply } as never });
    await expect(helper.reply('Hello')).rejects.toMatchObject({
      code: 'MODEL',
      message: expect.stringContaining(said),
    });
  });

  test('[agent.2] others are told its description, or the first sentence of its prompt without memory', () => {
    const introduce = (options: object) => new StandardAgent({ name: 'cook', ...options }).introduction;
    expect(introduce({ systemMessage: 'You cook {memory:taste}v1.5 soups. The secret is salt.\n{memory}' })).toBe(
      'You cook v1.5 soups.',
    );
    expect(introduce({ systemMessage: 'You cook\nand more' })).toBe('You cook');
    expect(introduce({ systemMessage: `You ${'x'.repeat(400)}` })).toHaveLength(200);
    expect(introduce({ systemMessage: 'You cook. Well.', description: 'Cooks. Well.' })).toBe('Cooks. Well.');
    expect(introduce({})).toBe('');
  });

  test('[agent.5] an agent shows what it is', () => {
    const llmConfig = { provider: 'openai', model: 'gpt' } as const;
    const shown = new StandardAgent({ name: 'librarian', systemMessage: 'You help.', llmConfig });
    expect(inspect(shown)).toMatch(/^StandardAgent \{\s+name: 'librarian',.*'You help.'.*model: 'gpt'/s);
    expect([shown.systemMessage, shown.llmConfig?.model, shown.description]).toEqual(['You help.', 'gpt', 'You help.']);
  });

  test('[agent.3] a failed reply changes nothing', async () => {
    const model = scriptedModel([{ toolCalls: [{ name: 'tool', input: { n: 4 } }] }, { status: 500 }], { id: 'm' });
    const registry = new AgentRegistry({ models: { m: model } });
    const ann = agent({ model, tools: [tool(() => 'done')] });
    const before = ann.saveState();
    await expect(ann.respond(context({ registry }))).rejects.toMatchObject({ code: 'MODEL' });
    expect(ann.saveState()).toBe(before);
  });

  test('[agent.1] a circle of tool calls ends with words', async () => {
    const model = scriptedModel(
      ({ toolChoice }) => (toolChoice === 'none' ? 'Enough.' : { toolCalls: [{ name: 'tool', input: { n: 1 } }] }),
      { id: 'm' },
    );
    const ann = agent({ model, tools: [tool(() => 'again')], maxToolRounds: 3 });
    const outcome = await ann.respond(context({ registry: new AgentRegistry({ models: { m: model } }) }));
    expect(outcome.message?.content).toBe('Enough.');
    expect(model.requests.length).toBe(3);
  });

  test('[agent.1] an unknown tool is told to the model, not to the run', async () => {
    const model = scriptedModel([{ toolCalls: [{ name: 'fax', input: {} }] }, 'I see.'], { id: 'm' });
    const ann = agent({ model });
    await ann.respond(context({ registry: new AgentRegistry({ models: { m: model } }) }));
    expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('There is no tool \\"fax\\"');
  });

  test.each([
    { humanInputMode: 'NEVER', typed: '', said: 'auto' },
    { humanInputMode: 'ALWAYS', typed: 'Hi.', said: 'Hi.' },
    { humanInputMode: 'ALWAYS', typed: '', said: 'auto' },
    { humanInputMode: 'TERMINATE', typed: 'Hi.', said: 'auto' },
    { humanInputMode: 'TERMINATE', maxConsecutiveAutoReplies: 0, typed: 'Hi.', said: 'Hi.' },
  ] as const)('[agent.4] $humanInputMode with "$typed" typed says "$said"', async ({ typed, said, ...options }) => {
    const ann = agent({ ...options, defaultReply: 'auto' });
    const outcome = await ann.respond(context({ ask: async () => typed }));
    expect(outcome.message?.content).toBe(said);
    expect(ann.saveState().autoReplies.boss).toBe(said === 'auto' ? 1 : 0);
  });

  test('[agent.4] silence has a reason: the limit, the person, or nothing to say', async () => {
    const spent = agent({ maxConsecutiveAutoReplies: 1, defaultReply: 'auto' });
    await spent.respond(context());
    expect(await spent.respond(context())).toEqual({ silence: 'limit' });
    const left = agent({ humanInputMode: 'ALWAYS', defaultReply: 'auto' });
    expect(await left.respond(context({ ask: async () => EXIT }))).toEqual({ silence: 'exit' });
    expect(await agent().respond(context())).toEqual({ silence: 'nothing_to_say' });
  });

  test('[agent.5] a state comes back into another agent exactly, and what it lacks is listed', async () => {
    const ann = agent({ tools: [tool(() => 'done')], systemMessage: 'Be brief.', maxConsecutiveAutoReplies: 3 });
    const other = new StandardAgent({ name: 'other' });
    expect(other.loadState(structuredClone(ann.saveState()))).toEqual([
      { path: '$.agents.ann.tools.tool', problem: 'The tool "tool" is not registered.', kind: 'missing' },
    ]);
    expect(other.saveState()).toEqual(ann.saveState());
    const changed = new StandardAgent({ name: 'ann', tools: [tool(() => '', { description: 'Another.' })] });
    expect(changed.loadState(ann.saveState())).toMatchObject([{ problem: expect.stringContaining('another way') }]);
    expect(() => other.loadState({ name: 'ann' })).toThrow(/not the state of an agent/);
  });

  test('[model.8] a key never enters the state, and a missing one is named when the model is built', async () => {
    const llmConfig = { provider: 'openai', model: 'gpt-x' } as const;
    const ann = agent({ llmConfig });
    await expect(ann.respond(context())).rejects.toThrow('OPENAI_API_KEY');
    expect(JSON.stringify(ann.saveState())).not.toContain('sk-');
    expect(() => agent({ llmConfig: { ...llmConfig, apiKey: 'sk-secret' } })).toThrow(/environment variable/);
  });
});

describe('a status', () => {
  const all: AgentStatus[] = ['initializing', 'running', 'paused', 'completed', 'cancelled', 'error'];

  test('[agent.3] follows the table', () => {
    expect(changeStatus('running', 'completed')).toBe('completed');
    expect(() => changeStatus('completed', 'paused')).toThrow(
      'An agent that is completed cannot become paused. From completed it can become: running.',
    );
    for (const status of all) expect(changeStatus(status, status)).toBe(status);
  });

  test('[agent.3] a pause remembers what it interrupted', () => {
    const ann = agent();
    ann.setStatus('running');
    ann.setStatus('waiting_for_input');
    ann.setStatus('paused');
    ann.unpause();
    expect(ann.status).toBe('waiting_for_input');
  });
});
