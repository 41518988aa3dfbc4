import { describe, expect, test } from 'vitest';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManagerOptions } from '../../manager/call-options.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { RestoreReport } from '../../manager/engine/loading.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { Fleet } from '../fleet/fleet.ts';
import { AgentLoop } from '../loop/agent-loop.ts';
import { defineWorkflow } from '../workflow/definition/parse-workflow.ts';
import { WorkflowExecutor } from '../workflow/workflow-executor.ts';

function openManager(options: Partial<CheckpointManagerOptions> = {}): CheckpointManager {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage(), ...options });
}

function chatOf(end: unknown, said = 'We are DONE.'): GroupChat {
  const agents = [new StandardAgent({ name: 'ann', defaultReply: said })];
  const options = { agents, speakerSelection: 'round_robin', allowRepeatSpeaker: true, maxRounds: 2 } as const;
  return new GroupChat(end === undefined ? options : { ...options, end: end as never });
}

function run(chat: GroupChat, manager = openManager()) {
  const runner = new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false });
  return runner.run({ message: 'Go.' });
}

describe('a factory', () => {
  test('[save.1] must return an agent, at once', async () => {
    const storage = new InMemoryCheckpointStorage();
    const manager = openManager({ storage });
    const id = await manager.save(new StandardAgent({ name: 'ann' }));
    const nothing = { factory: (() => undefined) as never };
    await expect(manager.restore(id, nothing)).rejects.toThrow('The factory must return an agent; found undefined.');
    const late = { factory: async () => new StandardAgent({ name: 'ann' }) };
    await expect(manager.restore(id, late)).rejects.toThrow('must not be async');
    const made = { factory: StandardAgent as never };
    await expect(manager.restore(id, made)).rejects.toThrow(
      'found the class StandardAgent. Pass () => new StandardAgent(',
    );
    expect(() => openManager({ agents: { Clerk: StandardAgent as never } })).toThrow('found the class StandardAgent');
    expect(() => new AgentRegistry({ agents: { Clerk: StandardAgent as never } })).toThrow('found the class');
    const other = openManager({ storage, agents: { StandardAgent: (() => undefined) as never } });
    await expect(other.restore(id)).rejects.toThrow('must return an agent');
  });

  test('[save.1] so must the makers of a team', async () => {
    class Clerk extends StandardAgent {}
    const manager = openManager();
    const agents = [new Clerk({ name: 'ann', defaultReply: 'Yes.' })];
    const { checkpointId } = await run(
      new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 1 }),
      manager,
    );
    for (const Clerk of [() => undefined, () => ({})]) {
      const registry = new AgentRegistry({ agents: { Clerk: Clerk as never } });
      const restoring = new CheckpointRestorer({ manager, registry }).restore(checkpointId ?? '');
      await expect(restoring).rejects.toThrow(/maker of class "Clerk" must return/);
    }
  });
});

test('[input.1] a callback that rejects fails the run, as one that throws', async () => {
  const reject = async (): Promise<never> => Promise.reject(new Error('mine'));
  const failed = { status: 'failed', error: expect.objectContaining({ message: 'mine' }) };
  const options = { chat: chatOf(undefined), manager: openManager(), sessionId: 's', logs: false as const };
  const chat = new CheckpointingGroupChatManager({ ...options, onMessage: reject });
  expect(await chat.run({ message: 'Go.' })).toMatchObject(failed);
  for (const callback of ['onMessage', 'onTaskLedger', 'onProgressLedger']) {
    const { runner } = createRunner(createCrew(), { manager: openManager(), [callback]: reject });
    expect([callback, await runner.run({ task: 'Go.' })]).toMatchObject([callback, failed]);
  }
});

test('[input.1] an onText that rejects fails the run, and the model is not asked again for what it said', async () => {
  const model = scriptedModel(() => 'Hello there.', { id: 'm' });
  const manager = openManager();
  const team = (onText?: () => Promise<never>) => {
    const agents = [new StandardAgent({ name: 'ann', model })];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', allowRepeatSpeaker: true, maxRounds: 1 });
    const options = { chat, manager, sessionId: 's', logs: false as const };
    return new CheckpointingGroupChatManager(onText === undefined ? options : { ...options, onText });
  };
  const reject = async (): Promise<never> => Promise.reject(new Error('mine'));
  const failed = { status: 'failed', error: expect.objectContaining({ message: 'mine' }) };
  expect(await team(reject).run({ message: 'Go.' })).toMatchObject(failed);
  expect(await team().resume()).toMatchObject({ status: 'ended', newMessages: 1 });
  expect(model.requests).toHaveLength(1);
  const alone = new StandardAgent({ name: 'bob', model });
  await expect(alone.reply('Hello?', { onText: reject })).rejects.toThrow('mine');
});

test('[input.1] an async predicate is refused: its promise would end every conversation', async () => {
  const registry = new AgentRegistry({ predicates: { done: (async () => false) as never } });
  const agents = [new StandardAgent({ name: 'ann', defaultReply: 'Yes.' })];
  const options = { agents, registry, end: { predicate: 'done' }, allowRepeatSpeaker: true, maxRounds: 2 };
  const result = await run(new GroupChat({ ...options, speakerSelection: 'round_robin' }));
  const message = 'The predicate "done" must not be async: it must return true or false.';
  expect(result).toMatchObject({ status: 'failed', error: expect.objectContaining({ message }) });
});

test('[run.9] an async prepare is waited for, and what it rejects with is what continue() does', async () => {
  const manager = openManager();
  const { checkpointId = '' } = await run(chatOf(undefined, 'Yes.'), manager);
  const restorer = new CheckpointRestorer({ manager });
  const prepare = async (chat: GroupChat): Promise<void> => {
    await Promise.resolve();
    chat.edit(0, 'Stay.');
  };
  const { messages } = await restorer.continue(checkpointId, { rounds: 1, logs: false, prepare });
  expect(messages[0]?.content).toBe('Stay.');
  const late = async (): Promise<never> => Promise.reject(new Error('mine'));
  const options = { rounds: 1, logs: false as const, branch: 'late', prepare: late };
  await expect(restorer.continue(checkpointId, options)).rejects.toThrow('mine');
  expect((await manager.branches('s')).map(({ branch }) => branch)).not.toContain('late');
});

test('[run.6] a callback that fails does not make a move happen again', async () => {
  const names = async (failAt: number) => {
    const storage = new InMemoryCheckpointStorage();
    let told = 0;
    const fail = () => {
      if (++told === failAt) throw new Error('mine');
    };
    const { runner } = createRunner(createCrew(), { storage, onMessage: fail });
    const { messages, status } = await runner.run({ task: 'Go.' });
    if (status === 'ended') return messages;
    return (await createRunner(createCrew(), { storage }).runner.resume()).messages;
  };
  const whole = await names(0);
  for (const failAt of [1, 2, 3, 4]) expect([failAt, await names(failAt)]).toEqual([failAt, whole]);
});

test('[run.3] an agent is in one run at a time: two users of one agent do not hear each other', async () => {
  const manager = openManager();
  const agentOf = (answer: () => string | Promise<string>) =>
    new StandardAgent({ name: 'ann', model: scriptedModel(answer) });
  const ask = (sessionId: string, agent = agentOf(() => 'Yes?')) => {
    const options = { speakerSelection: 'round_robin', allowRepeatSpeaker: true, maxRounds: 1 } as const;
    const chat = new GroupChat({ agents: [agent], ...options });
    const team = new CheckpointingGroupChatManager({ chat, manager, sessionId, logs: false });
    return team.prompt(`I am ${sessionId}.`);
  };
  await ask('eve');
  await ask('bob');
  const refused: unknown[] = [];
  const shared = agentOf(async () => {
    await ask('bob', shared).catch((error: unknown) => refused.push(error)); // while eve is answered
    return 'Hello.';
  });
  await ask('eve', shared);
  expect(refused).toMatchObject([{ code: 'CONFLICT', details: { agent: 'ann', sessionId: 'eve' } }]);
  expect(JSON.stringify(await manager.load({ sessionId: 'eve', at: '@' }))).not.toContain('bob');
  expect(await ask('bob', shared)).toMatchObject({ status: 'ended', newMessages: 2 }); // now that eve's has ended
  const one = agentOf(() => 'Yes?');
  const begun = await Promise.allSettled([ask('kim', one), ask('lee', one)]);
  expect(begun.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
});

test('[input.1] what is no checkpoint to continue from is refused in words', async () => {
  const restorer = new CheckpointRestorer({ manager: openManager() });
  for (const source of [null, undefined, 5])
    await expect(restorer.continue(source as never, { rounds: 1 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

test('[chat.5] nobody but the person has its name, in fleets and replies, too', async () => {
  const agents = [new StandardAgent({ name: 'user', defaultReply: 'Yes.' })];
  const model = scriptedModel([], { id: 'm' });
  expect(() => new Fleet({ agents, model })).toThrow('"user" is the name of the person');
  await expect(agents[0]?.reply('Hello.')).rejects.toThrow('the name of the agent itself');
});

test('[agent.3] an agent that is asked on its own is running, and then waits', async () => {
  let seen: string | undefined;
  const model = scriptedModel(
    () => {
      seen = ann.status;
      return 'Yes.';
    },
    { id: 'm' },
  );
  const ann = new StandardAgent({ name: 'ann', model });
  await ann.reply('Well?');
  expect([seen, ann.status]).toEqual(['running', 'waiting_for_input']);
  const forgetful = new StandardAgent({ name: 'bob', defaultReply: 'Yes.' });
  await forgetful.reply('Well?', { remembers: false });
  expect(forgetful.status).toBe('waiting_for_input');
});

describe('the end of a conversation', () => {
  test('[chat.5] a pattern may be a string or a regular expression', async () => {
    for (const pattern of ['DO.E', /do.e/i, { source: 'do.e', flags: 'i' }])
      expect(await run(chatOf({ pattern }))).toMatchObject({ end: { reason: 'signal', signal: 'DONE' } });
    expect(await run(chatOf({ pattern: 'NEVER' }))).toMatchObject({ end: { reason: 'max_rounds' } });
  });

  test.each([null, { signals: 'DONE' }, { pattern: 5 }, { pattern: '' }, { pattern: '(' }, { signals: [''] }])(
    '[chat.5] %j is refused when the chat is made',
    (end) => {
      expect(() => chatOf(end)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    },
  );
});

test('[save.7] a number is the id of a user in lists, too', async () => {
  const manager = openManager();
  await manager.save({ id: 'a', userId: 9 });
  expect(await manager.listByUser(9)).toHaveLength(1);
  expect(await manager.clearUserHistory(9)).toBe(1);
  await expect(manager.listByUser(Number.NaN)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

describe('whoever goes on from a checkpoint', () => {
  test('[save.8] is an event, with its report', async () => {
    const manager = openManager();
    const told: [string, RestoreReport][] = [];
    manager.on('checkpoint_restored', (checkpoint, _, report) => told.push([checkpoint.id, report]));
    const { checkpointId = '' } = await run(chatOf(undefined), manager);
    const restorer = new CheckpointRestorer({ manager });
    await restorer.restore(checkpointId);
    await restorer.continue(checkpointId, { rounds: 1, logs: false });
    const chat = chatOf(undefined);
    await new CheckpointingGroupChatManager({
      chat,
      manager,
      sessionId: 's',
      branch: 'main',
      logs: false,
    }).resume();
    const report = expect.objectContaining({ status: 'complete', checkpointId });
    expect(told).toEqual(Array(3).fill([checkpointId, report]));
  });

  test('[save.8] workflows, too', async () => {
    const manager = openManager();
    const told: string[] = [];
    manager.on('checkpoint_restored', (checkpoint) => told.push(checkpoint.id));
    const workflow = defineWorkflow({ steps: [{ id: 'one', function: 'one' }] });
    const executor = new WorkflowExecutor({ manager, registry: { functions: { one: () => 1 } } });
    const { checkpointId, sessionId } = await executor.run({ workflow });
    await executor.run({ workflow, checkpointId });
    await executor.run({ workflow, sessionId });
    expect(told).toEqual([checkpointId, checkpointId]);
  });

  test('[save.8] fleets and loops, too', async () => {
    const { runner, manager } = createRunner(createCrew());
    const told: string[] = [];
    manager.on('checkpoint_restored', (checkpoint) => told.push(checkpoint.id));
    const { checkpointId } = await runner.run({ task: 'Find out.' });
    expect(told).toEqual([]);
    await runner.resume();
    expect(told).toEqual([checkpointId]);
    const options = {
      manager,
      agentId: 'clerk',
      sessionId: 'loop',
      createAgent: () => ({ handle: () => undefined }),
    };
    const first = await AgentLoop.open(options);
    void first.run();
    await first.stop();
    const head = (await manager.latest({ sessionId: 'loop' }))?.id;
    const again = await AgentLoop.open(options);
    void again.run();
    await again.stop();
    expect(told).toEqual([checkpointId, head]);
  });
});

describe('a storage of three methods', () => {
  function table(toId: (checkpoint: Checkpoint) => unknown) {
    const rows = new Map<string, string>();
    return {
      save: async (checkpoint: Checkpoint) => {
        rows.set(checkpoint.id, JSON.stringify(checkpoint));
        return toId(checkpoint) as string;
      },
      load: async (id: string) => {
        const row = rows.get(id);
        return row === undefined ? null : Checkpoint.fromJSON(JSON.parse(row));
      },
      listByUser: async () => [],
      listBySession: async () => [],
    };
  }

  test.each([undefined, 'row-7', 5])('[whole.1] save that returns %j is refused', async (id) => {
    const manager = new CheckpointManager({ storage: table(() => id) });
    await expect(manager.save({ id: 'a' })).rejects.toThrow('must return the id of the checkpoint');
  });

  test('[whole.1] teams and workflows say at once that they need another', async () => {
    const manager = new CheckpointManager({ storage: table(({ id }) => id) });
    const needs = { code: 'UNSUPPORTED', message: expect.stringContaining('records steps') };
    await expect(run(chatOf(undefined), manager)).rejects.toMatchObject(needs);
    const workflow = defineWorkflow({ steps: [{ id: 'one', function: 'one' }] });
    const executor = new WorkflowExecutor({ manager, registry: { functions: { one: () => 1 } } });
    await expect(executor.run({ workflow })).rejects.toMatchObject(needs);
  });
});
