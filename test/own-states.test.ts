import { expect, test } from 'vitest';
import { durable } from '../src/adapter/ai-sdk/index.ts';
import { SavestateSaver } from '../src/adapter/langgraph/index.ts';
import { SavestateSession } from '../src/adapter/openai-agents/index.ts';
import { CheckpointManager } from '../src/manager/checkpoint-manager.ts';
import { StandardAgent } from '../src/runtime/agent/standard-agent.ts';
import { CheckpointingGroupChatManager } from '../src/runtime/chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../src/runtime/chat/group-chat.ts';
import { AgentLoop } from '../src/runtime/loop/index.ts';
import { defineWorkflow } from '../src/runtime/workflow/definition/parse-workflow.ts';
import { WorkflowExecutor } from '../src/runtime/workflow/workflow-executor.ts';
import type { ChunkStorage } from '../src/storage/contract.ts';
import { InMemoryCheckpointStorage } from '../src/storage/memory/memory-storage.ts';
import { createCrew, createRunner } from './fleet/crew.ts';
import { SDKS } from './support/ai-sdk.ts';
import { putValues, ROOT } from './support/langgraph.ts';

const STEPS = [
  { id: 'ask', approval: { message: 'Go on?' } },
  { id: 'work', function: 'work' },
];
const WORKFLOW = defineWorkflow({ workflow: { name: 'w' }, steps: STEPS });

function createChat(manager: CheckpointManager) {
  const ann = new StandardAgent({ name: 'ann', humanInputMode: 'ALWAYS' });
  const chat = new GroupChat({
    agents: [ann],
    speakerSelection: 'round_robin',
    allowRepeatSpeaker: true,
    maxRounds: 1,
  });
  return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'chat', logs: false });
}

function createExecutor(manager: CheckpointManager) {
  return new WorkflowExecutor({ manager, registry: { functions: { work: () => 'worked' } } });
}

function createFleet(manager: CheckpointManager) {
  return createRunner(createCrew({}, { planReview: true }), { manager }).runner;
}

function openLoop(manager: CheckpointManager) {
  const createAgent = () => ({ handle: async () => undefined });
  return AgentLoop.open({ manager, agentId: 'loop', createAgent, initial: { context: { goals: ['to stay'] } } });
}

/** One run of each kind, begun by a program of version 1; returns checkpoints of a transcript and of a thread. */
async function begin(storage: ChunkStorage): Promise<{ transcript: string; thread: string }> {
  const manager = new CheckpointManager({ storage, schemaVersion: 1 });
  expect(await createChat(manager).run({ message: 'Well?' })).toMatchObject({ status: 'waiting' });
  expect(await createFleet(manager).run({ task: 'Find out.' })).toMatchObject({ status: 'waiting' });
  expect(await createExecutor(manager).run({ workflow: WORKFLOW, sessionId: 'flow' })).toMatchObject({
    status: 'waiting',
  });
  const loop = await openLoop(manager);
  await manager.save(loop);
  await loop.stop();
  for (const [version, { generateText }, scripted] of SDKS) {
    const settings = durable({ model: scripted('Sold.') }, await manager.session(`order ${version}`));
    await generateText({ ...settings, prompt: 'What of my order?' });
  }
  const newest = async (sessionId: string) => (await manager.latest({ sessionId }))?.id ?? '';
  const items = new SavestateSession({ manager, sessionId: 'items' });
  await items.addItems([{ type: 'message', role: 'user', content: 'Hello.' }]);
  const transcript = await newest('openai/items');
  await putValues(new SavestateSaver({ manager }), ROOT, { n: 1 });
  return { transcript, thread: await newest('lg/thread') };
}

test.each([
  ['the migrations of the program', [{ from: 1, migrate: ({ name }: { name: string }) => name.split(' ') }]],
  ['a version that nothing leads to', []],
])('[restore.5] states that the library makes are left alone by %s', async (_, migrations) => {
  const storage = new InMemoryCheckpointStorage();
  const { transcript, thread } = await begin(storage);
  const manager = new CheckpointManager({ storage, schemaVersion: 2, migrations });
  const [request] = await createChat(manager).pending();
  await createChat(manager).answer({ requestId: request?.id ?? '', answer: 'Yes.', by: 'Bob' });
  expect(await createChat(manager).resume()).toMatchObject({ status: 'ended' });
  await createFleet(manager).answer({ requestId: 'plan-1', answer: 'approve', by: 'Bob' });
  expect(await createFleet(manager).resume()).toMatchObject({ status: 'ended' });
  await createExecutor(manager).answer({ sessionId: 'flow', requestId: 'ask', answer: 'approve', by: 'Bob' });
  expect(await createExecutor(manager).run({ workflow: WORKFLOW, sessionId: 'flow' })).toMatchObject({
    status: 'completed',
  });
  const loop = await openLoop(manager);
  expect(loop.state.context.goals).toEqual(['to stay']);
  await loop.stop();
  for (const [version] of SDKS)
    expect((await manager.session(`order ${version}`)).state).toMatchObject({ adapter: 'ai-sdk', status: 'done' });
  expect(await manager.load(transcript)).toMatchObject({ items: [{ role: 'user' }] });
  expect(await manager.load(thread)).toMatchObject({ channel_values: { n: 1 } });
});

test('[restore.5] a state of the program that only has the name of ours is migrated', async () => {
  const storage = new InMemoryCheckpointStorage();
  const state = { kind: 'fleet', fleet: { cars: 2 }, agents: {} };
  const id = await new CheckpointManager({ storage }).save(state);
  const migrations = [{ from: 0, migrate: (old: unknown) => ({ was: old }) }];
  expect(await new CheckpointManager({ storage, schemaVersion: 1, migrations }).load(id)).toEqual({ was: state });
});
