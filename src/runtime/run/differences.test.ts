import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import type { StandardAgentOptions } from '../agent/agent-options.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { defineTool } from '../agent/tool.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import {
  CheckpointingGroupChatManager,
  type GroupChatManagerOptions,
} from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat, type GroupChatOptions } from '../chat/group-chat.ts';

const tool = (description: string) =>
  defineTool({ name: 'count', description, input: z.object({ by: z.number() }), run: () => 0 });

/** What the code says: agent "a" as given, and "b". */
type Code = { readonly a?: Partial<StandardAgentOptions>; readonly chat?: Partial<GroupChatOptions> };

function open() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const prompts: string[] = [];
  const model = scriptedModel(
    ({ system = '' }) => {
      prompts.push(system);
      return 'x';
    },
    { id: 'm' },
  );
  const manage = ({ a, chat }: Code, options: Partial<GroupChatManagerOptions> = {}) => {
    const agents = [
      new StandardAgent({ name: 'a', model, systemMessage: 'OLD', tools: [tool('old')], ...a }),
      new StandardAgent({ name: 'b', model }),
    ];
    const group = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 4, ...chat });
    return new CheckpointingGroupChatManager({ chat: group, manager, sessionId: 's', logs: false, ...options });
  };
  return { manager, prompts, model, manage };
}

/** A conversation of two rounds out of four. */
async function stopped() {
  const parts = open();
  const stop = new AbortController();
  const options = { signal: stop.signal, onMessage: () => parts.prompts.length >= 2 && stop.abort() };
  const { status } = await parts.manage({}, options as Partial<GroupChatManagerOptions>).run({ message: 'hi' });
  expect(status).toBe('stopped');
  parts.prompts.length = 0;
  return parts;
}

describe('code that changed while a conversation was stopped', () => {
  test('[run.7] a prompt is refused at resume, and nothing is written', async () => {
    const { manager, manage, prompts } = await stopped();
    const before = (await manager.list()).checkpoints.length;
    await expect(manage({ a: { systemMessage: 'NEW' } }).resume()).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('The prompt of "a" changed. Go on with onDifference'),
      details: { differences: [{ path: '$.agents.a.prompt', kind: 'changed' }] },
    });
    expect([(await manager.list()).checkpoints.length, prompts]).toEqual([before, []]);
  });

  test.each([
    ['warn', 'OLD'],
    ['accept', 'NEW'],
  ] as const)('[run.7] with %s the prompt is %s', async (onDifference, expected) => {
    const { manage, prompts } = await stopped();
    const changed = manage({ a: { systemMessage: 'NEW' } });
    await expect(changed.resume()).rejects.toThrow('The prompt of "a" changed.');
    const result = await changed.resume({ onDifference });
    expect(result).toMatchObject({ status: 'ended', differences: [{ text: 'The prompt of "a" changed.' }] });
    expect(prompts[0]).toContain(expected);
    const again = manage({ a: { systemMessage: 'NEW' } }).resume();
    await (onDifference === 'warn' ? expect(again).rejects.toThrow('prompt') : expect(again).resolves.toBeDefined());
  });

  test.each<[string, Code, string]>([
    ['a tool changed', { a: { tools: [tool('new')] } }, 'changed: The tool "count" of "a" changed.'],
    ['a tool is missing', { a: { tools: [] } }, 'missing: The tool "count" of "a" is not in its code.'],
    ['the name of the group', { chat: { managerName: 'lead' } }, 'changed: The setting "managerName" changed.'],
    [
      'a limit of an agent',
      { a: { maxToolRounds: 3 } },
      'changed: The setting "maxToolRounds" of "a" changed from 8 to 3.',
    ],
    ['a limit of the group', { chat: { maxRounds: 3 } }, 'changed: The setting "maxRounds" changed from 4 to 3.'],
    [
      'who may speak',
      { chat: { allowedTransitions: { a: ['b'] } } },
      'changed: The setting "allowedTransitions" changed.',
    ],
    [
      'another model',
      { a: { model: scriptedModel(() => 'y', { id: 'other' }) } },
      'changed: The model of "a" changed.',
    ],
  ])('[run.7] one list, and one option: %s', async (_, code, text) => {
    const { manage } = await stopped();
    const found = (differences: readonly { kind: string; text: string }[]) =>
      differences.map((difference) => `${difference.kind}: ${difference.text}`);
    await expect(manage(code).resume()).rejects.toThrow(text.replace(/^\w+: /, ''));
    const { status, differences } = await manage(code, { onDifference: 'accept' }).resume();
    expect([status, found(differences)]).toEqual(['ended', [text]]);
    expect((await manage(code).prompt('More.', { rounds: 1 })).differences).toEqual([]);
  });

  test('[run.7] with accept a new agent has heard everything, one that is gone is not waited for, and limits hold', async () => {
    const { manage } = await stopped();
    const agents = [
      new StandardAgent({ name: 'a', defaultReply: 'y' }),
      new StandardAgent({ name: 'c', defaultReply: 'z' }),
    ];
    const result = await manage({ chat: { agents, maxRounds: 5 } }).resume({ onDifference: 'accept' });
    expect(result.differences.map(({ path, kind }) => `${kind} ${path}`)).toEqual(
      expect.arrayContaining(['missing $.agents.b', 'added $.agents.c', 'changed $.settings.maxRounds']),
    );
    expect(result.messages.map(({ name }) => name)).toEqual(['user', 'a', 'b', 'a', 'c', 'a']);
  });

  test('[run.7] with accept what ended at a limit goes on for exactly the rounds that the code adds', async () => {
    const { manage } = await stopped();
    const ended = await manage({}).resume();
    expect(ended).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' } });
    const more = (maxRounds: number) => manage({ chat: { maxRounds } }).resume({ onDifference: 'accept' });
    expect(await more(4)).toMatchObject({ status: 'ended', newMessages: 0 });
    expect(await more(7)).toMatchObject({
      status: 'ended',
      newMessages: 3,
      end: { detail: '7 of 7 rounds were run.' },
    });
    expect(await more(2)).toMatchObject({ status: 'ended', newMessages: 0 });
  });

  test('[run.7] with warn an agent that the code gained is left out; with accept the same manager lets it speak', async () => {
    const { manage, model } = await stopped();
    const agent = (name: string) => new StandardAgent({ name, model, ...(name === 'a' && { systemMessage: 'OLD' }) });
    const group = () => manage({ chat: { agents: ['a', 'b', 'c'].map(agent) } });
    const warned = await group().resume({ onDifference: 'warn' });
    expect([warned.status, warned.messages.map(({ name }) => name)]).toEqual(['ended', ['user', 'a', 'b', 'a', 'b']]);
    const held = group();
    await expect(held.resume({ rounds: 2 })).rejects.toThrow('The agent "c" is new.');
    const { status, messages } = await held.resume({ rounds: 3, onDifference: 'accept' });
    expect([status, messages.map(({ name }) => name).includes('c')]).toEqual(['ended', true]);
  });

  test('[run.7] overrides and edits of the state are no differences; a change of the code under them is', async () => {
    const { manager, manage, model, prompts } = await stopped();
    const id = (await manager.latest({ sessionId: 's' }))?.id ?? '';
    const { branch } = await manager.fork(id, {
      edit: [{ op: 'replace', path: '/agents/a/systemMessage', value: 'EDITED' }],
    });
    await expect(manage({ a: { systemMessage: 'NEW' } }, { branch }).resume()).rejects.toThrow(
      'The prompt of "a" changed.',
    );
    expect(await manage({}, { branch }).resume()).toMatchObject({ status: 'ended', differences: [] });
    expect(prompts[0]).toContain('EDITED');
    const registry = new AgentRegistry({ tools: [tool('old')], models: { m: model } });
    const overrides = { agents: { a: { systemMessage: 'OVERRIDDEN' } } };
    const other = await new CheckpointRestorer({ manager, registry }).continue(id, {
      rounds: 1,
      overrides,
      logs: false,
    });
    const more = await manage({}, { branch: other.branch }).prompt('More.', { rounds: 2 });
    expect([more.differences, prompts.at(-1), prompts.at(-2)]).toEqual([[], '', 'OVERRIDDEN']);
    const third = await new CheckpointRestorer({ manager, registry }).continue(more.checkpointId ?? '', {
      rounds: 1,
      logs: false,
    });
    expect(third.differences).toEqual([]);
  });

  test('[run.7] rounds that a run grants are no difference', async () => {
    const { manage } = open();
    const first = await manage({}).run({ message: 'hi', rounds: 1 });
    expect(first).toMatchObject({ end: { detail: '1 of 1 round was run.' } });
    expect(await manage({}).resume({ rounds: 2 })).toMatchObject({ newMessages: 2, differences: [] });
  });

  test('[run.7] a model without its code is missing, and not another one', async () => {
    const { manager, manage } = await stopped();
    const id = (await manager.latest({ sessionId: 's' }))?.id ?? '';
    const registry = new AgentRegistry({ tools: [tool('old')] });
    const { report } = await new CheckpointRestorer({ manager, registry }).restore(id, { onDifference: 'warn' });
    expect(report.differences.map(({ kind }) => kind)).toEqual(['missing', 'missing']);
    expect((await manage({}).resume()).differences).toEqual([]);
  });
});

test('[run.7] a fleet whose prompt or limits changed in the code is refused, told or accepted at resume, too', async () => {
  const { manager } = await (async () => {
    const begun = createRunner(createCrew({}, { planReview: true }));
    expect((await begun.runner.run({ task: 'Find out what is known.' })).status).toBe('waiting');
    return begun;
  })();
  const changed = () => createRunner(createCrew({}, { planReview: true, maxRoundCount: 9 }), { manager }).runner;
  await expect(changed().resume()).rejects.toThrow(/The setting "maxRoundCount" changed from \d+ to 9\./);
  expect(await changed().resume({ onDifference: 'warn' })).toMatchObject({
    status: 'waiting',
    differences: [{ kind: 'changed' }],
  });
  await changed().answer({ requestId: 'plan-1', answer: 'approve', by: 'Ann' });
  const accepted = await changed().resume({ onDifference: 'accept' });
  expect(accepted).toMatchObject({ status: 'ended', differences: [{ path: '$.settings.maxRoundCount' }] });
});

test('[run.7] with accept a fleet that ended at a limit goes on for exactly the rounds that the code adds', async () => {
  const never = { assess: () => ({ satisfied: false }) };
  const begun = createRunner(createCrew(never, { maxRoundCount: 2 }));
  expect(await begun.runner.run({ task: 'Find out.' })).toMatchObject({ end: { reason: 'max_rounds' } });
  const crew = createCrew(never, { maxRoundCount: 5 });
  const result = await createRunner(crew, { manager: begun.manager }).runner.resume({ onDifference: 'accept' });
  expect(result).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' } });
  expect(crew.fleet.record.rounds).toBe(5);
});
