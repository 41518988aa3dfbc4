import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Memory } from '../../memory/memory.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatState } from './chat-state.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';

const SCOPE = { userId: 'eve' };

function setUp() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const known = new Memory({ path: join(temporaryFolder(), 'memory.db'), manager });
  const model = scriptedModel(() => 'I will see to it.', { id: 'm' });
  const registry = new AgentRegistry({ models: { m: model } });
  const hold = (
    sessionId: string,
    store: boolean,
    { checkpoint = true, memory = known as Pick<Memory, 'add' | 'render'> } = {},
  ) => {
    const waiter = new StandardAgent({
      name: 'waiter',
      model,
      systemMessage: 'Serve.\nKnown:\n{memory}',
      runtime: { store, checkpoint },
    });
    const chat = new GroupChat({ agents: [waiter], registry, allowRepeatSpeaker: true, maxRounds: 1 });
    return new CheckpointingGroupChatManager({
      chat,
      manager,
      sessionId,
      logs: false,
      memory: { memory: memory as Memory, scope: SCOPE },
    });
  };
  return { manager, memory: known, model, registry, hold };
}

async function contents(memory: Memory): Promise<string[]> {
  const all = await memory.getAll(SCOPE);
  return all.map((record) => record.memory).sort();
}

test('[run.13] {memory} is filled anew in every turn, and the checkpoint says with what', async () => {
  const { manager, memory, model, hold } = setUp();
  await memory.add('I am allergic to peanuts.', SCOPE);
  const { checkpointId } = await hold('lunch', false).run({ message: 'Which dessert is safe with my peanut allergy?' });
  expect(model.requests[0]?.system).toContain('allergic to peanuts');
  const state = (await manager.load(checkpointId ?? '')) as ChatState;
  expect(state.agents.waiter?.memoryIds.length).toBeGreaterThan(0);
  expect(state.agents.waiter?.systemMessage).toContain('{memory}');
  await memory.add('I love mango sorbet.', SCOPE);
  await hold('dinner', false).run({ message: 'Is there sorbet without peanuts?' });
  expect(model.requests[1]?.system).toContain('mango sorbet');
});

test('[run.13] without memory the placeholders of a prompt are empty', async () => {
  const model = scriptedModel(() => 'Done.', { id: 'm' });
  const waiter = new StandardAgent({
    name: 'waiter',
    model,
    systemMessage: 'Known: {memory:facts}{memory}; {{memory}}',
  });
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const chat = new GroupChat({ agents: [waiter], maxRounds: 1 });
  await new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false }).run({ message: 'Hello.' });
  expect(model.requests[0]?.system).toBe('Known: ; {memory}');
});

test('[run.14] people teach, agents only with the store flag, and a resumed run teaches nothing twice', async () => {
  const { memory, hold } = setUp();
  await hold('one', false).run({ message: 'My table is number seven.' });
  expect(await contents(memory)).not.toContain('I will see to it.');
  const before = await contents(memory);
  await hold('one', false).resume();
  expect(await contents(memory)).toEqual(before);
  await hold('two', true).run({ message: 'My table is number eight.' });
  expect(await contents(memory)).toContain('I will see to it.');
});

test('[run.14] an agent with store: true teaches also with checkpoint: false, and no resume teaches it twice', async () => {
  const { memory, manager, hold } = setUp();
  await hold('one', true, { checkpoint: false }).run({ message: 'My table is number seven.' });
  const { checkpoints: all } = await manager.list({ sessionId: 'one' });
  expect(all.filter(({ trigger }) => trigger === 'message_appended')).toHaveLength(1);
  const known = await contents(memory);
  expect(known.filter((one) => one === 'I will see to it.')).toHaveLength(1);
  await hold('one', true, { checkpoint: false }).resume();
  expect(await contents(memory)).toEqual(known);
});

test('[run.14] what was said without a checkpoint of its own is learned with the next one, also after a kill', async () => {
  const { memory, hold, model } = setUp();
  const failing = { render: memory.render.bind(memory), add: () => Promise.reject(new Error('killed')) };
  const told = await hold('one', true, { checkpoint: false, memory: failing }).run({ message: 'Table seven, please.' });
  expect(told.failedSaves).not.toEqual([]);
  expect(await contents(memory)).toEqual([]);
  await hold('one', true, { checkpoint: false }).resume();
  expect(await contents(memory)).toContain('I will see to it.');
  expect(model.requests).toHaveLength(1);
});

test('[run.14] a continuation from before does not know what came after', async () => {
  const { manager, memory, model, registry, hold } = setUp();
  await hold('trip', false).run({ message: 'I fly to Lisbon on Monday.' });
  const [start] = (await manager.list({ sessionId: 'trip' }, { limit: 100 })).checkpoints.slice(-1);
  const restorer = new CheckpointRestorer({ manager, registry });
  const options = { logs: false, memory: { memory, scope: SCOPE } } as const;
  const asked = model.requests.length;
  const prepare = (chat: GroupChat) => chat.change({ problem: 'Where do I fly on Monday?' });
  await restorer.continue(start?.id ?? '', { rounds: 1, prepare, ...options });
  expect(model.requests[asked]?.system).not.toContain('Lisbon');
  await hold('later', false).run({ message: 'Where do I fly on Monday?' });
  expect(model.requests.at(-1)?.system).toContain('Lisbon');
});

test('[run.13] memory is asked with the problem and the recent messages, and what was just said is not repeated', async () => {
  const { manager, memory, model } = setUp();
  await memory.add('I prefer green tea without milk.', SCOPE);
  const waiter = new StandardAgent({ name: 'waiter', model, systemMessage: 'Serve.\n{memory}' });
  const guest = new StandardAgent({ name: 'guest', defaultReply: 'Good.' });
  const chat = new GroupChat({ agents: [guest, waiter], speakerSelection: 'round_robin', maxRounds: 2 });
  const options = { chat, manager, sessionId: 'tea', logs: false, userId: 'eve', memory } as const;
  await new CheckpointingGroupChatManager(options).run({ message: 'I would like some green tea.' });
  expect(model.requests[0]?.system).toContain('without milk');
  expect(model.requests[0]?.system).not.toContain('I would like');
});

test('[run.13] memory is given alone, for the user of the run, or with its scope; a wrong one is refused at once', async () => {
  const { manager, memory } = setUp();
  const chat = new GroupChat({ agents: [new StandardAgent({ name: 'a' })], allowRepeatSpeaker: true });
  const make = (given: object) =>
    new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false, ...given });
  expect(() => make({ memory, userId: 'eve' })).not.toThrow();
  expect(() => make({ memory: { memory, scope: SCOPE } })).not.toThrow();
  expect(() => make({ memory })).toThrow('Give the run a userId');
  expect(() => make({ memory: { memory } })).toThrow('{ memory, scope: { userId } }; found an object with memory');
  expect(() => make({ memory: { memory, scope: {} } })).toThrow('at least one of userId');
  expect(() => make({ memory: 'memories/history.db' })).toThrow('found memories/history.db');
});
