import { describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatState } from './chat-state.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

const PROBLEM = 'Square the number of messages.';

async function hold(manager: CheckpointManager, rounds: number, options = {}) {
  const team = createTeam({ maxRounds: rounds, ...options });
  const held = new CheckpointingGroupChatManager({ chat: team.chat, manager, sessionId: 'team', logs: false });
  return { team, result: await held.run({ message: PROBLEM }) };
}

async function history(manager: CheckpointManager, branch = 'main') {
  const { checkpoints: all } = await manager.list({ sessionId: 'team', branch }, { limit: 1000 });
  return all.toReversed();
}

describe('a group chat', () => {
  test('[chat.1] every move is a checkpoint, and the end says why', async () => {
    const manager = open();
    const { result, team } = await hold(manager, 2);
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' }, newMessages: 3 });
    expect(team.calls).toEqual([2]);
    const all = await history(manager);
    expect(all.map(({ trigger }) => trigger)).toEqual([
      'conversation_start',
      'message_appended',
      'speaker_reply_generated',
      'message_appended',
      'speaker_reply_generated',
      'message_appended',
      'conversation_end',
    ]);
    const half = (await manager.load(all[2]?.id ?? '')) as ChatState;
    expect(half.chat.messages.length).toBe(1);
    expect(half.chat.pendingReply?.speaker).toBe('solver');
    expect(half.agents.solver?.histories.chat_manager?.at(-1)?.content).toBe('The square is 4.');
    expect(half.agents.critic?.histories.chat_manager?.at(-1)?.content).toBe(PROBLEM);
  });

  test('[chat.2] the words that end a conversation are recorded', async () => {
    const manager = open();
    const { result } = await hold(manager, 9, { end: { signals: ['square is'] } });
    expect(result).toMatchObject({ status: 'ended', end: { reason: 'signal', signal: 'square is' }, newMessages: 2 });
    const [last] = (await history(manager)).slice(-1);
    expect(last?.metadata).toMatchObject({ endReason: 'signal', signal: 'square is' });
  });

  test('[run.9] from every checkpoint, N rounds append N messages, and everything is as it was', LATER, async () => {
    const manager = open();
    const { team } = await hold(manager, 11);
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    for (const checkpoint of await history(manager)) {
      const restored = await restorer.restore(checkpoint.id);
      expect(restored.report).toEqual({ status: 'complete', differences: [] });
      expect(restored.chat.saveState()).toEqual(await manager.load(checkpoint.id));
      const before = restored.chat.messages.length;
      const opening = before === 0 ? 1 : 0;
      const result = await restorer.continue(checkpoint.id, { logs: false, rounds: 3 });
      expect(result).toMatchObject({ status: 'ended', end: { reason: 'max_rounds' }, newMessages: 3 + opening });
      expect(result.branch).not.toBe('main');
    }
    expect((await history(manager)).length).toBe(25);
  });

  test('[chat.3] a frozen replay makes no call and gives the same states', async () => {
    const manager = open();
    const { team } = await hold(manager, 6);
    const asked = team.model.requests.length;
    const original = await history(manager);
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    const replay = await restorer.continue(original[0]?.id ?? '', { logs: false, rounds: 6, mode: 'frozen' });
    expect(replay.status).toBe('ended');
    expect(team.model.requests.length).toBe(asked);
    expect(team.calls.length).toBe(3);
    const replayed = await history(manager, replay.branch);
    expect(replayed.map(({ stateDigest }) => stateDigest)).toEqual(
      original.slice(1).map(({ stateDigest }) => stateDigest),
    );
  });

  test('[chat.3] with a changed prompt, calls before the divergence are taken from the recording and none after', async () => {
    const manager = open();
    const { team } = await hold(manager, 6);
    const asked = team.model.requests.length;
    const [first] = await history(manager);
    const restorer = new CheckpointRestorer({ manager, registry: team.registry });
    const overrides = { agents: { critic: { systemMessage: 'You are stern.' } } };
    const result = await restorer.continue(first?.id ?? '', { logs: false, rounds: 6, mode: 'recorded', overrides });
    // The solver's first turn (two calls) comes before the critic speaks; then three critic and two solver turns.
    expect(team.model.requests.length - asked).toBe(3 + 2 * 2);
    expect(result.newMessages).toBe(7);
  });
});

describe('a group that cannot be led', () => {
  test('[chat.5] a problem of somebody who is not in the group is refused, and nothing is saved', async () => {
    const manager = open();
    const { chat } = createTeam({ maxRounds: 1 });
    const held = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false });
    const [name = ''] = chat.agents.map((agent) => agent.name);
    await expect(held.run({ message: PROBLEM, initiator: `${name}x` })).rejects.toThrow(
      `The initiator "${name}x" is not in the group. Did you mean "${name}"? It may be: `,
    );
    expect(await history(manager)).toEqual([]);
    expect((await held.run({ message: PROBLEM, initiator: name })).messages[0]).toMatchObject({ name });
  });

  const model = scriptedModel(() => 'x', { id: 'm' });
  const agentNamed = (name: string) => new StandardAgent({ name, model });
  const create = (names: readonly string[], options: object) =>
    new GroupChat({ agents: names.map(agentNamed), maxRounds: 2, ...options });

  test.each([
    ['no selector', {}, /"auto", the default.*round_robin/],
    ['nothing said', { speakerSelection: undefined }, /"auto", the default/],
    ['a misspelt selection', { speakerSelection: 'roundrobin' }, /found "roundrobin".*round_robin/],
    ['no selection at all', { speakerSelection: null }, /found null/],
    [
      'a selector for nothing',
      { speakerSelection: 'round_robin', selector: model },
      /chooses speakers with speakerSelection "auto" only/,
    ],
    ['an unknown selector', { speakerSelection: { selector: 'mine' } }, /selector "mine" .* not registered/],
    ['an unknown predicate', { speakerSelection: 'random', end: { predicate: 'done' } }, /"done" .* not registered/],
  ])('[chat.5] is refused when it is made: %s', (_, options, message) => {
    expect(() => create(['a', 'b'], options)).toThrow(message);
  });

  test('[chat.5] where there is no choice, none is needed', () => {
    for (const speakerSelection of ['roundrobin', null])
      expect(() => create(['a'], { speakerSelection })).toThrow('speakerSelection');
    expect(create(['a'], {}).record.settings.speakerSelection).toBe('auto');
    expect(create(['a', 'b'], { allowedTransitions: { user: ['a'] } }).agents).toHaveLength(2);
    expect(create(['a', 'b'], { selector: model, maxRounds: undefined }).record.settings.maxRounds).toBe(20);
  });
});
