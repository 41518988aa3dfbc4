import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { createTeam, type Team } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Memory } from '../../memory/memory.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { ScriptedAnswer } from '../../testing/model/scripted-answer.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { findToolResults } from '../agent/chat-message.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatRunOptions } from '../chat/chat-run.ts';
import type { ChatState } from '../chat/chat-state.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat, type GroupChatOptions } from '../chat/group-chat.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import { intervene } from './intervene.ts';
import { trial } from './trial.ts';

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

async function hold(team: Pick<Team, 'chat' | 'registry'>, manager: CheckpointManager, options: ChatRunOptions = {}) {
  const { chat, registry } = team;
  const held = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false, ...options });
  const result = await held.run({ message: 'Hello.' });
  return { result, parts: { manager, registry }, id: result.checkpointId ?? '' };
}

/** Selects the solver every second time. */
function selecting({ messages }: ModelRequest): ScriptedAnswer {
  return JSON.stringify(messages).includes('square is') ? 'critic' : 'solver';
}

describe('an intervened branch', () => {
  test.each<[string, Partial<GroupChatOptions>]>([
    ['a model selects', { speakerSelection: 'auto', allowRepeatSpeaker: true }],
    ['chance selects', { speakerSelection: 'random', allowRepeatSpeaker: true, seed: 7 }],
    ['a person selects', { speakerSelection: 'manual' }],
  ])("[repair.6] when %s, a turn taken again with the tool's own answer makes no call", async (_, options) => {
    const manager = open();
    const selector = scriptedModel(selecting, { id: 'selector' });
    const team = createTeam({ maxRounds: 6, ...options, ...(options.speakerSelection === 'auto' && { selector }) });
    const asked: string[] = [];
    const ask = async ({ id }: { readonly id: string }) => {
      asked.push(id);
      return 'solver';
    };
    const { parts, id, result } = await hold(team, manager, { ask });
    const countCalls = () => [team.model.requests.length, selector.requests.length, asked.length];
    const calls = countCalls();
    const turns = result.messages.flatMap((message, index) =>
      findToolResults(message).map(({ outcome }) => ({ index, outcome })),
    );
    expect(turns.length).toBeGreaterThan(0);
    for (const { index, outcome } of turns) {
      const toolResult = { message: index + 1 };
      const replay = { logs: false, mode: 'recorded', rounds: 7 - index, ask } as const;
      const again = await intervene(parts, id, { ...replay, toolResult, replacement: outcome.text });
      expect(again.messages).toEqual(result.messages);
    }
    expect(countCalls()).toEqual(calls);
  });

  test('[repair.6] a turn with a prompt filled from long-term memory is taken again from its recording', async () => {
    const manager = open();
    const known = new Memory({ path: join(temporaryFolder(), 'memory.db'), manager });
    const memory = { memory: known, scope: { userId: 'eve' } };
    const team = createTeam({ maxRounds: 2 });
    team.chat.agent('solver')?.configure({ systemMessage: 'You solve problems.\n{memory}' });
    const { parts, id, result } = await hold(team, manager, { memory });
    const calls = team.model.requests.length;
    const request = { logs: false, mode: 'recorded', rounds: 2, memory, toolResult: { message: 2 } } as const;
    const again = await intervene(parts, id, { ...request, replacement: '4' });
    expect(again.messages).toEqual(result.messages);
    expect(team.model.requests.length).toBe(calls);
  });

  test('[repair.2] belongs to the user of the conversation', async () => {
    const manager = open();
    const { parts, id } = await hold(createTeam({ maxRounds: 2 }), manager, { userId: 'ada' });
    const { branch } = await intervene(parts, id, { message: 2, replacement: 'No.', rounds: 1, logs: false });
    const { checkpoints: all } = await manager.list({ sessionId: 'team', branch });
    expect(all.length).toBeGreaterThan(2);
    for (const { userId } of all) expect(userId).toBe('ada');
  });

  test('[repair.2] has files of its own, which name its origin', async () => {
    const manager = open();
    const { parts, id } = await hold(createTeam({ maxRounds: 2 }), manager);
    const logs = temporaryFolder();
    const { folder = '', baseId } = await intervene(parts, id, { message: 2, replacement: 'No.', rounds: 1, logs });
    const metadata = JSON.parse(readFileSync(join(folder, 'continuation_metadata.json'), 'utf8')) as object;
    expect(metadata).toMatchObject({ original_checkpoint_id: baseId, max_additional_rounds: 1 });
    expect(readdirSync(join(folder, 'checkpoints')).length).toBeGreaterThan(1);
    const quiet = await trial(parts, id, { repeats: 1, rounds: 1, judge: () => true });
    expect(quiet.control.successes).toBe(1);
    expect(readdirSync(logs).length).toBe(1);
  });

  test('[repair.1] the first message is the problem', async () => {
    const manager = open();
    const { parts, id } = await hold(createTeam({ maxRounds: 2 }), manager);
    const { editedId } = await intervene(parts, id, { message: 1, replacement: 'Good-bye.', rounds: 1, logs: false });
    const { chat, agents } = (await manager.load(editedId)) as ChatState;
    expect(chat).toMatchObject({ problem: 'Good-bye.', messages: [{ name: 'user', content: 'Good-bye.' }], round: 0 });
    for (const { histories } of Object.values(agents))
      expect(histories.chat_manager?.at(-1)?.content).toBe('Good-bye.');
  });

  test('[repair.1] of messages with the same words, only the one that is meant is changed, in every copy', async () => {
    const manager = open();
    const agents = ['clerk', 'scribe'].map((name) => new StandardAgent({ name, defaultReply: 'Noted.' }));
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 4 });
    const { parts, id } = await hold({ chat, registry: chat.registry }, manager);
    const { editedId } = await intervene(parts, id, { message: 4, replacement: 'Lost.', rounds: 1, logs: false });
    const state = (await manager.load(editedId)) as ChatState;
    const expected = ['user: Hello.', 'clerk: Noted.', 'scribe: Noted.', 'clerk: Lost.'];
    const copies = [state.chat.messages, ...Object.values(state.agents).map(({ histories }) => histories.chat_manager)];
    for (const copy of copies) expect(copy?.map(({ name, content }) => `${name}: ${content}`)).toEqual(expected);
  });

  test('[repair.9] what a run was given stays as it is when it is resumed', async () => {
    const manager = open();
    const agents = ['clerk', 'scribe'].map((name) => new StandardAgent({ name, defaultReply: 'Noted.' }));
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 2 });
    const { parts, id } = await hold({ chat, registry: chat.registry }, manager);
    const stop = new AbortController();
    const overrides = { settings: { maxRounds: 1 } };
    const options = { repeats: 1, rounds: 4, judge: () => true, name: 'kept', overrides };
    const stopped = await trial(parts, id, { ...options, signal: stop.signal, onMessage: () => stop.abort() });
    expect(stopped.control.runs).toMatchObject([{ status: 'stopped', newMessages: 1 }]);
    const resumed = await trial(parts, id, options);
    expect(resumed.control.runs).toMatchObject([{ status: 'ended', newMessages: 4 }]);
  });

  test('[repair.4] what is not registered is named before a branch is made', async () => {
    const manager = open();
    const { id } = await hold(createTeam({ maxRounds: 2 }), manager);
    const attempt = intervene({ manager, registry: new AgentRegistry() }, id, {
      message: 2,
      replacement: 'No.',
      rounds: 1,
      logs: false,
    });
    await expect(attempt).rejects.toThrow(/The tool "square" of "solver" is not registered/);
    expect((await manager.branches('team')).length).toBe(1);
  });

  test('[repair.4] in a conversation taken over from a file, only what came after it can be edited', async () => {
    const manager = open();
    const folder = temporaryFolder();
    const team = createTeam({ maxRounds: 2 });
    const held = new CheckpointingGroupChatManager({
      chat: team.chat,
      manager,
      sessionId: 'team',
      logs: folder,
    });
    const { folder: files = '' } = await held.run({ message: 'Hello.' });
    const file = readdirSync(join(files, 'checkpoints')).find((name) => name.includes('conversation_end')) ?? '';
    const elsewhere = open();
    const parts = { manager: elsewhere, registry: team.registry };
    const restorer = new CheckpointRestorer(parts);
    const { checkpointId = '' } = await restorer.continue(
      { file: join(files, 'checkpoints', file) },
      { rounds: 2, logs: false },
    );
    const edit = { replacement: 'No.', rounds: 1, logs: false } as const;
    expect((await intervene(parts, checkpointId, { ...edit, message: 4 })).messages.length).toBe(5);
    await expect(intervene(parts, checkpointId, { ...edit, message: 2 })).rejects.toThrow(/taken over from elsewhere/);
  });

  test('[repair.9] a run that waits for a person is an error of its own', async () => {
    const manager = open();
    const agents = [
      new StandardAgent({ name: 'clerk', defaultReply: 'Noted.' }),
      new StandardAgent({ name: 'boss', humanInputMode: 'ALWAYS' }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 2 });
    const { parts, id } = await hold({ chat, registry: chat.registry }, manager, { ask: async () => 'Yes.' });
    const intervention = { message: 1, replacement: 'Hello?' };
    const options = { intervention, repeats: 1, rounds: 2, judge: () => true, name: 'waits' };
    const waiting = await trial(parts, id, options);
    expect(waiting).toMatchObject({ edited: { errors: 1, runs: [{ status: 'waiting', newMessages: 1 }] } });
    const answered = await trial(parts, id, { ...options, ask: async () => 'No.' });
    expect(answered).toMatchObject({ edited: { successes: 1 }, control: { successes: 1 } });
  });

  test('[repair.4] runs that would share a working directory are not made at once', async () => {
    const manager = open();
    const agents = [
      new StandardAgent({ name: 'coder', defaultReply: 'Noted.', codeExecution: { workDir: temporaryFolder() } }),
      new StandardAgent({ name: 'clerk', defaultReply: 'Noted.' }),
    ];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 1 });
    const { parts, id } = await hold({ chat, registry: chat.registry }, manager);
    const options = { repeats: 2, rounds: 1, judge: () => true };
    await expect(trial(parts, id, { ...options, concurrency: 2 })).rejects.toThrow(/"coder" runs code/);
    expect((await trial(parts, id, options)).control.successes).toBe(2);
  });
});
