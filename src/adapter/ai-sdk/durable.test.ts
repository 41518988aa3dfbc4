import type { LanguageModel } from 'ai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Line, SDKS } from '../../../test/support/ai-sdk.ts';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type DurableState, durable } from './index.ts';

const call = (id: string, order: string, tool = 'look_up') => [{ id, tool, input: { order } }];
const SCRIPT: Line[] = [call('c1', '1042'), [...call('c2', '1043'), ...call('c3', '1044')], 'They left yesterday.'];
const cut = () => new Error('the line is cut');

/** The text of a stream that was read to its end. */
async function whole(streamed: { consumeStream(): PromiseLike<void>; readonly text: PromiseLike<string> }) {
  await streamed.consumeStream();
  return streamed.text;
}

describe.each(SDKS)('ai %s', (version, sdk, scripted) => {
  const { ToolLoopAgent, generateText, stepCountIs, streamText } = sdk;

  /** Tools that note what they do. */
  function shop() {
    const ran: string[] = [];
    const keys = new Set<unknown>();
    const inputSchema = z.object({ order: z.string() });
    const execute = async ({ order }: { order: string }, options: object) => {
      ran.push(order);
      keys.add('idempotencyKey' in options && options.idempotencyKey);
      if (order === 'broken') throw new Error('no such order');
      return { order, left: new Date(0) };
    };
    return { ran, keys, tools: { look_up: { description: 'looks up', inputSchema, execute } } };
  }

  /** Ways to run settings: each returns the text of the answer. */
  type Settings = { model: LanguageModel; tools?: ReturnType<typeof shop>['tools'] };
  const WAYS: [string, (settings: Settings, prompt: string) => Promise<string>][] = [
    ['agent', async (settings, prompt) => (await new ToolLoopAgent(settings).generate({ prompt })).text],
    ['streamed agent', async (settings, prompt) => whole(await new ToolLoopAgent(settings).stream({ prompt }))],
    [
      'generateText',
      async (settings, prompt) => (await generateText({ ...settings, prompt, stopWhen: stepCountIs(9) })).text,
    ],
    [
      'streamText',
      async (settings, prompt) =>
        whole(streamText({ ...settings, prompt, stopWhen: stepCountIs(9), onError: () => undefined })),
    ],
  ];

  describeOn(STORAGES)('in %s', (_, create) => {
    test.each(WAYS)('a run that died goes on, with nothing done twice: %s', async (__, run) => {
      const { storage, reopen } = create();
      const { ran, keys, tools } = shop();
      const attempt = async (lines: Line[]) => {
        const session = await new CheckpointManager({ storage: reopen?.() ?? storage }).session('order');
        const model = scripted(...lines);
        const text = await run(durable({ model, tools, maxRetries: 0 }, session), 'Where are my orders?').catch(
          () => 'cut',
        );
        return { text, session, state: session.state as DurableState };
      };
      const first = await attempt([...SCRIPT.slice(0, 2), cut()]);
      expect(first).toMatchObject({ state: { status: 'running' } });
      expect(ran.toSorted()).toEqual(['1042', '1043', '1044']);
      const second = await attempt(SCRIPT.slice(2));
      expect(second.text).toBe('They left yesterday.');
      expect(ran).toHaveLength(3);
      expect(keys.size).toBe(3);
      const { messages, status } = second.state;
      expect(status).toBe('done');
      expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant']);
      expect((await second.session.history()).map(({ trigger }) => trigger)).toEqual([
        'run_completed',
        'step_completed',
        'step_completed',
        'run_started',
      ]);
      expect(await attempt(['Asked anew.'])).toMatchObject({ text: 'Asked anew.', state: { status: 'done' } });
    });
  });

  test('a run goes on from the conversation of the last one; another conversation takes its place', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const session = await manager.session('talk');
    const { tools } = shop();
    const said = () => (session.state as DurableState).messages;
    const agent = new ToolLoopAgent(durable({ model: scripted('Hello.', 'Fine.', 'Yes.'), tools }, session));
    await agent.generate({ prompt: 'Hi' });
    await agent.generate({ messages: [...said(), { role: 'user', content: 'How are you?' }] });
    expect(said()).toHaveLength(4);
    await agent.generate({ prompt: 'Is it you?' });
    expect(said()).toHaveLength(2);
    expect(await session.history()).toHaveLength(6);
    expect((await manager.verify()).findings).toEqual([]);
  });

  test('what a tool throws is told to the model, and the same again to a run that goes on', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const { ran, tools } = shop();
    const prompts: string[] = [];
    const attempt = async (...lines: Line[]) => {
      const model = scripted(...lines);
      const settings = durable({ model, tools, maxRetries: 0 }, await manager.session('errors'));
      const text = await new ToolLoopAgent(settings).generate({ prompt: 'Look' }).then(
        (result) => result.text,
        () => 'cut',
      );
      prompts.push(JSON.stringify(model.doGenerateCalls.at(-1)?.prompt));
      return text;
    };
    expect(await attempt(call('c1', 'broken'), cut())).toBe('cut');
    expect(await attempt('It is not there.')).toBe('It is not there.');
    expect(ran).toEqual(['broken']);
    expect(prompts[0]).toContain('no such order');
    expect(prompts[1]).toBe(prompts[0]);
  });

  test('callbacks and preparations of the settings still count, and their models and tools are recorded', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const { ran, tools } = shop();
    const heard: string[] = [];
    const end = version === '6' ? 'onFinish' : 'onEnd';
    const attempt = async (other: ReturnType<typeof scripted>) => {
      const settings = {
        model: scripted(),
        tools: {},
        prepareCall: (options: object) => ({ ...options, tools }) as never,
        prepareStep: () => ({ model: other }),
        [end]: () => void heard.push('end'),
      };
      const session = await manager.session('hooks');
      return (
        await new ToolLoopAgent(durable(settings, session)).generate({ prompt: 'Look' }).catch(() => ({ text: 'cut' }))
      ).text;
    };
    expect(await attempt(scripted(call('c1', '1'), cut()))).toBe('cut');
    expect(await attempt(scripted('Done.'))).toBe('Done.');
    expect(ran).toEqual(['1']);
    expect(heard).toEqual(['end']);
  });

  test('callbacks that are written in place know what they are given', async () => {
    const session = await new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).session('typed');
    const heard: string[] = [];
    const { tools } = shop();
    const agent = new ToolLoopAgent(
      durable({ model: scripted('One.'), tools, onFinish: ({ text }) => void heard.push(text.trim()) }, session),
    );
    await agent.generate({ prompt: 'Hi' });
    const prepareStep = ({ stepNumber }: { stepNumber: number }) => void heard.push(String(stepNumber));
    const settings = durable(
      { model: scripted('Two.'), prepareStep, onFinish: ({ text }) => void heard.push(text) },
      session,
    );
    await generateText({ ...settings, prompt: 'And now?' });
    expect(heard).toEqual(['One.', '0', 'Two.']);
  });

  test('a tool that returns what holds itself stops the run; it is not told as an error of the tool', async () => {
    const session = await new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).session('circle');
    const circle: { self?: unknown } = {};
    circle.self = circle;
    const tools = { look_up: { ...shop().tools.look_up, execute: async () => circle as never } };
    const agent = new ToolLoopAgent(durable({ model: scripted(call('c1', '1'), 'Done.'), tools }, session));
    await expect(agent.generate({ prompt: 'Hi' })).rejects.toThrow('it is a reference to one of its own containers');
  });

  test.each(['tool', 'checkpoint', 'end'])('a save that fails stops the run: of a %s', async (what) => {
    const storage = new FailingStorage();
    const manager = new CheckpointManager({ storage });
    const { ran, tools } = shop();
    const model = scripted(call('c1', '1'), 'Done.', 'Not asked.');
    const settings = durable({ model, tools }, await manager.session('full'));
    const agent = new ToolLoopAgent(settings);
    storage.refuse = ({ effects = [], checkpoint }) =>
      what === 'tool'
        ? effects.some(({ body }) => /"tool:.*"done"/.test(body))
        : checkpoint?.body.includes(what === 'end' ? 'run_completed' : 'step_completed') === true;
    if (what === 'end') expect((await agent.generate({ prompt: 'Look' })).text).toBe('Done.');
    await expect(agent.generate({ prompt: 'Look' })).rejects.toThrow('disk full');
    expect(model.doGenerateCalls).toHaveLength(what === 'end' ? 2 : 1);
    expect(ran).toHaveLength(1);
  });
});

/** A storage that refuses some commits. */
class FailingStorage extends InMemoryCheckpointStorage {
  refuse: (commit: Commit) => boolean = () => false;

  override commit(commit: Commit): ReturnType<ChunkStorage['commit']> {
    if (this.refuse(commit)) return Promise.reject(new Error('disk full'));
    return super.commit(commit);
  }
}

test('bad input is refused, and nothing is changed', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('own');
  const [, sdk, scripted] = SDKS[0] as (typeof SDKS)[number];
  expect(() => durable({ model: 'openai/gpt-5' }, session)).toThrow(`such as gateway('openai/gpt-5')`);
  expect(() => durable({ model: scripted() }, {} as never)).toThrow('The session of durable()');
  for (const model of [undefined, null, {}])
    expect(() => durable({ model } as never, session)).toThrow(
      'The model of durable() must be an object with doGenerate()',
    );
  await session.save({ own: 1 });
  const agent = new sdk.ToolLoopAgent(durable({ model: scripted('x') }, session));
  await expect(agent.generate({ prompt: 'Hi' })).rejects.toThrow('holds a state that is no run of the AI SDK');
  expect(session.state).toEqual({ own: 1 });
});
