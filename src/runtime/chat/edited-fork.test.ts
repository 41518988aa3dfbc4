import { describe, expect, test } from 'vitest';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatState } from './chat-state.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';

const SAID = ['Paris it is.', 'Agreed.', 'Paris it is.', 'Agreed.'];

/** Two who speak in turn, after four messages; a fork goes on for one more. */
async function talk() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const asked: string[] = [];
  const model = scriptedModel((request) => {
    asked.push(JSON.stringify(request.messages));
    return SAID[asked.length - 1] ?? 'Done.';
  });
  const team = (branch: string) => {
    const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, model }));
    const settings = { speakerSelection: 'round_robin', sendIntroductions: true, maxRounds: 4 } as const;
    const chat = new GroupChat({ agents, ...settings });
    return new CheckpointingGroupChatManager({ chat, manager, sessionId: 'trip', branch, logs: false });
  };
  const { checkpointId = '' } = await team('main').run({ message: 'Where to?' });
  return { manager, asked, model, team, id: checkpointId };
}

async function load(manager: CheckpointManager, id: string): Promise<ChatState> {
  return (await manager.load(id)) as ChatState;
}

function wordsOf({ agents }: ChatState, name: string): (string | undefined)[] | undefined {
  return agents[name]?.histories.chat_manager?.map(({ content }) => content).slice(1);
}

describe('a fork with an edited message', () => {
  test('[session.2] is what every agent goes on from, also the one that said it; equal words elsewhere stay', async () => {
    const { manager, asked, team, id } = await talk();
    const edit = [{ op: 'replace', path: '/chat/messages/3/content', value: 'Rome it is.' }] as const;
    const { headId, copies } = await manager.fork(id, { branch: 'rome', edit, author: 'Eve', reason: 'cheaper' });
    expect(copies).toEqual(['$.agents.ann.histories.chat_manager[4]', '$.agents.bob.histories.chat_manager[4]']);
    const state = await load(manager, headId);
    const words = ['Where to?', 'Paris it is.', 'Agreed.', 'Rome it is.', 'Agreed.'];
    expect([wordsOf(state, 'ann'), wordsOf(state, 'bob')]).toEqual([words, words]);
    expect(state.chat.messages[3]).toMatchObject({ edited: { author: 'Eve', reason: 'cheaper', originalChars: 12 } });
    await team('rome').resume({ rounds: 2 });
    for (const request of asked.slice(-2)) expect(request.match(/Paris|Rome/g)).toEqual(['Paris', 'Rome']);
    expect(wordsOf(await load(manager, id), 'ann')).toEqual(['Where to?', ...SAID]);
  });

  test('[session.2] reaches the problem, a reply that only its speaker knows, and what the edit does not change itself', async () => {
    const { manager, id } = await talk();
    const restate = (state: ChatState) => Object.assign(state.chat, { problem: 'Where not to?' });
    const restated = await load(
      manager,
      (await manager.fork(id, { edit: (state: ChatState) => void restate(state) })).headId,
    );
    expect([restated.chat.messages[0]?.content, wordsOf(restated, 'bob')?.[0]]).toEqual([
      'Where not to?',
      'Where not to?',
    ]);
    const pending =
      (await manager.list()).checkpoints.find(({ trigger }) => trigger === 'speaker_reply_generated')?.id ?? '';
    const edit = [{ op: 'replace', path: '/chat/pendingReply/message/content', value: 'No.' }] as const;
    const forked = await manager.fork(pending, { edit });
    expect(forked.copies).toEqual(['$.agents.bob.histories.chat_manager[5]']);
    expect(wordsOf(await load(manager, forked.headId), 'bob')?.at(-1)).toBe('No.');
    const own = [
      { op: 'replace', path: '/chat/messages/1/content', value: 'Rome.' },
      { op: 'replace', path: '/agents/ann/histories/chat_manager/2/content', value: 'I said Oslo.' },
    ] as const;
    const both = await manager.fork(id, { edit: own });
    expect(both.copies).toEqual(['$.agents.bob.histories.chat_manager[2]']);
    expect(wordsOf(await load(manager, both.headId), 'ann')?.[1]).toBe('I said Oslo.');
  });

  test('[session.2] messages that are taken away are refused, unless the copies are, too', async () => {
    const { manager, id } = await talk();
    const remove = { op: 'remove', path: '/chat/messages/4' } as const;
    await expect(manager.fork(id, { edit: [remove] })).rejects.toThrow(
      'The edit makes 4 messages of 5, and ann, bob would still have the old ones: each agent has its own copies, in agents.<name>.histories.chat_manager.',
    );
    const copies = ['ann', 'bob'].map((name) => ({ ...remove, path: `/agents/${name}/histories/chat_manager/5` }));
    const state = await load(manager, (await manager.fork(id, { edit: [remove, ...copies] })).headId);
    expect([state.chat.messages.length, wordsOf(state, 'ann')?.length]).toEqual([4, 4]);
  });

  test('[session.2] that leaves no conversation is refused when it is made, with the path', async () => {
    const { manager, id } = await talk();
    for (const [path, value, named] of [
      ['/chat', 5, /\$\.chat is not/],
      ['/chat/messages', 5, /\$\.chat is not/],
      ['/chat/messages/1/content', 5, /\$\.chat\.messages\[1\] is not/],
      ['/agents', 5, /\$\.agents is not/],
    ] as const)
      await expect(manager.fork(id, { edit: [{ op: 'replace', path, value }] })).rejects.toThrow(named);
    expect((await manager.branches('trip')).length).toBe(1);
    await manager.fork(id, { edit: () => ({ note: 'something else' }) });
  });

  test('[session.2] that misspells a field is refused with its path, and what was meant', async () => {
    const { manager, id } = await talk();
    for (const [path, value, named] of [
      ['/agents/ann/systemMesage', 'NEW', /\$\.agents\.ann\.systemMesage: .* "systemMessage"\?/],
      ['/agnts', {}, /\$\.agnts: .* "agents"\?/],
      ['/agents/anne', {}, /\$\.agents\.anne: /],
      ['/chat/maxRound', 1, /\$\.chat\.maxRound: nothing reads this field/],
      ['/chat/settings/maxRound', 1, /\$\.chat\.settings\.maxRound: .* "maxRounds"\?/],
      ['/chat/messages/1/conent', 'x', /\$\.chat\.messages\[1\]\.conent: .* "content"\?/],
      ['/chat/messages/1/name', 'anna', /\$\.chat\.messages\[1\]\.name: "anna" is nobody in it\. Did you mean "ann"\?/],
    ] as const)
      await expect(manager.fork(id, { edit: [{ op: 'add', path, value }] })).rejects.toThrow(named);
    expect((await manager.branches('trip')).length).toBe(1);
    const edit = [{ op: 'add', path: '/agents/ann/custom', value: { own: 1 } }] as const;
    const { headId } = await manager.fork(id, { edit });
    const more = await manager.fork(headId, { edit: [{ op: 'add', path: '/agents/ann/custom/more', value: 2 }] });
    expect((await load(manager, more.headId)).agents.ann?.custom).toEqual({ own: 1, more: 2 });
  });

  test('[chat.3] is replayed with what was recorded before it, as long as the edit changes no call', async () => {
    const { manager, asked, model } = await talk();
    const edit = (state: ChatState) => void Object.assign(state.agents.ann?.totals ?? {}, { costUsd: 1 });
    const { branch } = await manager.fork({ sessionId: 'trip', at: 'main message 3' }, { edit });
    const restorer = new CheckpointRestorer({
      manager,
      registry: new AgentRegistry({ models: { [model.id]: model } }),
    });
    for (const mode of ['frozen', 'recorded'] as const) {
      const { status, messages } = await restorer.continue(
        { sessionId: 'trip', at: branch },
        { rounds: 2, mode, logs: false },
      );
      expect([status, messages.map(({ content }) => content), asked.length]).toEqual([
        'ended',
        ['Where to?', ...SAID],
        4,
      ]);
    }
  });

  test('[session.2] a fleet is edited in the same way', async () => {
    const { runner, manager } = createRunner(createCrew());
    const { checkpointId = '' } = await runner.run({ task: 'Find it.' });
    const edit = [{ op: 'replace', path: '/fleet/messages/2/content', value: 'It is gone.' }] as const;
    const { copies } = await manager.fork(checkpointId, { edit });
    expect(copies?.every((path) => path.endsWith('.histories.orchestrator[2]'))).toBe(true);
    expect(copies?.length).toBeGreaterThan(1);
  });
});
