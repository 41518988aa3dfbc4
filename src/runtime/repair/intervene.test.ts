import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { answerOf, createTeam } from '../../../test/support/team.ts';
import { drawn } from '../../../test/support/trials.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type ChatMessage, findToolResults } from '../agent/chat-message.ts';
import type { ChatState } from '../chat/chat-state.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import type { GroupChatOptions } from '../chat/group-chat.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import { intervene } from './intervene.ts';
import type { Intervention } from './intervention.ts';

const KEPT = STORAGES.filter(([name]) => name === 'memory' || name === 'sqlite');
const RUN = { rounds: 3, logs: false } as const;

async function record(
  manager: CheckpointManager,
  options: Partial<GroupChatOptions> = {},
  script?: (request: ModelRequest) => ReturnType<typeof answerOf>,
) {
  const team = createTeam({ maxRounds: 6, ...options }, script);
  const held = new CheckpointingGroupChatManager({ chat: team.chat, manager, sessionId: 'team', logs: false });
  await held.run({ message: 'Square the number of messages.' });
  const original = await list(manager, 'main');
  const parts = { manager, registry: team.registry };
  return { team, parts, original, lastId: original.at(-1)?.id ?? '' };
}

function open() {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

async function list(manager: CheckpointManager, branch: string) {
  return (await manager.list({ sessionId: 'team', branch }, { limit: 1000, order: 'oldest' })).checkpoints;
}

async function load(manager: CheckpointManager, id: string | undefined) {
  return (await manager.load(id ?? '')) as ChatState;
}

function resultOf(message: ChatMessage | undefined): string {
  return message === undefined ? '' : (findToolResults(message)[0]?.outcome.text ?? '');
}

function words(state: ChatState, agent: string): string[] {
  return (state.agents[agent]?.histories.chat_manager ?? []).map(({ content }) => content);
}

describeOn(KEPT)('an intervention in %s storage', (_, create) => {
  test('[repair.1] an edited message is in the transcript and every private copy, and what came after it is gone', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const { parts, original, lastId } = await record(manager);
    const before = original.map(({ stateDigest }) => stateDigest);
    const result = await intervene(parts, lastId, {
      ...RUN,
      message: 3,
      replacement: 'That is wrong.',
      reason: 'the critic was too kind',
      author: 'ada',
    });
    expect(result).toMatchObject({ status: 'ended', newMessages: 3, end: { reason: 'max_rounds' } });
    const edited = await load(manager, result.editedId);
    expect(edited.chat.messages.map(({ content }) => content)).toEqual([
      'Square the number of messages.',
      'The square is 4.',
      'That is wrong.',
    ]);
    expect(edited.chat.messages[2]?.edited).toEqual({
      reason: 'the critic was too kind',
      author: 'ada',
      originalChars: 'I have seen 3 messages.'.length,
    });
    for (const agent of ['solver', 'critic'])
      expect(words(edited, agent).slice(1)).toEqual(edited.chat.messages.map(({ content }) => content));
    expect(edited.agents.critic?.histories.chat_manager?.at(-1)?.turn?.at(-1)?.content).toBe('That is wrong.');
    const after = await list(manager, 'main');
    expect(after.map(({ stateDigest }) => stateDigest)).toEqual(before);
    const messages = (await load(manager, lastId)).chat.messages;
    expect(messages[2]?.content).toBe('I have seen 3 messages.');
    await manager.close();
  });

  test('[repair.1] counts of replies begin anew, and everything else is as it was at that message', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const { parts, original, lastId } = await record(manager);
    const { editedId, baseId } = await intervene(parts, lastId, { ...RUN, message: 5, replacement: 'No.' });
    expect(baseId).toBe(original.filter(({ trigger }) => trigger === 'message_appended')[4]?.id);
    const [then, edited] = [await load(manager, baseId), await load(manager, editedId)];
    expect(then.agents.critic?.autoReplies).toEqual({ chat_manager: 2 });
    for (const name of ['solver', 'critic']) {
      const { histories: _, autoReplies, ...rest } = edited.agents[name] ?? {};
      const { histories: __, autoReplies: ___, ...was } = then.agents[name] ?? {};
      expect(autoReplies).toEqual({});
      expect(rest).toEqual(was);
    }
    expect(edited.chat.round).toBe(then.chat.round);
    await manager.close();
  });
});

describe('an intervention', () => {
  test('[repair.2] its branch says who, why and what', async () => {
    const manager = open();
    const { parts, lastId } = await record(manager);
    const request = { ...RUN, message: 2, replacement: 'It is 5.', reason: 'wrong sum', author: 'ada', branch: 'fix' };
    const result = await intervene(parts, lastId, request);
    const expected = {
      kind: 'message',
      originId: lastId,
      baseId: result.baseId,
      index: 1,
      agent: 'solver',
      originalChars: 16,
      replacementChars: 8,
    };
    expect(result.intervention).toEqual(expected);
    const branch = await list(manager, 'fix');
    expect(branch[0]).toMatchObject({ id: result.editedId, trigger: 'intervened', author: 'ada', reason: 'wrong sum' });
    for (const { metadata } of branch) expect(metadata?.intervention).toEqual(expected);
  });

  test('[repair.3] another prompt or model is for the rest of the branch alone', async () => {
    const manager = open();
    const { parts, original, lastId } = await record(manager);
    const at = original[1]?.id ?? '';
    const systemMessage = { agent: 'critic', text: 'You are stern.' };
    const prompted = await intervene(parts, at, { ...RUN, systemMessage });
    expect((await load(manager, prompted.checkpointId)).agents.critic?.systemMessage).toBe('You are stern.');
    expect((await load(manager, lastId)).agents.critic?.systemMessage).toBe('You check solutions.');
    const config = { provider: 'ollama', model: 'small', baseUrl: 'http://127.0.0.1:9' } as const;
    const failed = await intervene(parts, at, { ...RUN, llmConfig: { agent: 'solver', config } });
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'MODEL' }, intervention: { kind: 'llm_config' } });
    const { llmConfig, modelId } = (await load(manager, failed.checkpointId)).agents.solver ?? {};
    expect({ llmConfig, modelId }).toMatchObject({ llmConfig: config, modelId: null });
    const warmer = { agent: 'solver', config: { temperature: 1 } };
    const again = await intervene(parts, failed.checkpointId ?? '', { ...RUN, llmConfig: warmer });
    expect((await load(manager, again.editedId)).agents.solver?.llmConfig).toMatchObject({
      ...config,
      temperature: 1,
    });
    await expect(intervene(parts, at, { ...RUN, llmConfig: warmer })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('[repair.3] with another answer of a tool the turn is taken again from the call on, and the tool is not run', async () => {
    const manager = open();
    const { parts, team, lastId } = await record(manager);
    const asked = team.model.requests.length;
    const calls = [...team.calls];
    const request = { ...RUN, rounds: 1, toolResult: { callId: 'call_6' }, replacement: '17', reason: 'a broken tool' };
    const result = await intervene(parts, lastId, request);
    expect(result.messages.map(({ content }) => content)).toEqual([
      'Square the number of messages.',
      'The square is 4.',
      'I have seen 3 messages.',
      'The square is 17.',
    ]);
    expect(result).toMatchObject({ newMessages: 1, intervention: { tool: 'square', agent: 'solver', index: 3 } });
    expect(team.calls).toEqual(calls);
    // What the model said before the call is recorded; only what it says now is asked for.
    expect(team.model.requests.length).toBe(asked + 1);
    const state = await load(manager, result.checkpointId);
    for (const agent of ['solver', 'critic']) expect(words(state, agent).at(-1)).toBe('The square is 17.');
    expect(state.agents.solver?.autoReplies).toEqual({ chat_manager: 1 });
    expect(state.agents.solver?.totals.toolCalls).toBe(2);
    const byMessage = await intervene(parts, lastId, { ...request, toolResult: { message: 2, tool: 'square' } });
    expect(byMessage.messages.at(-1)?.content).toBe('The square is 17.');
  });

  test('[repair.3] calls made at the same time keep their answers', async () => {
    const manager = open();
    const both = ({ messages, system = '' }: ModelRequest) => {
      const last = messages.at(-1);
      if (last?.role === 'tool')
        return `Sums: ${JSON.stringify(last.content)
          .match(/"value":"\w+"/g)
          ?.join()}`;
      if (!system.startsWith('You solve')) return 'Go on.';
      const call = (id: string, n: number) => ({ id: `${id}_${messages.length}`, name: 'square', input: { n } });
      return { toolCalls: [call('a', 2), call('b', 3), call('c', 4)] };
    };
    const { parts, team, lastId } = await record(manager, {}, both);
    const calls = team.calls.length;
    const result = await intervene(parts, lastId, {
      ...RUN,
      rounds: 1,
      toolResult: { callId: 'b_2' },
      replacement: 'broken',
      isError: true,
    });
    expect(result.messages.at(-1)?.content).toBe('Sums: "value":"4","value":"broken","value":"16"');
    expect(team.calls.length).toBe(calls);
  });

  test('[repair.4] what cannot be found is named, and nothing is written', async () => {
    const manager = open();
    const { parts, lastId } = await record(manager);
    const refused: [Intervention, RegExp][] = [
      [{ message: 8, replacement: '' }, /no message 8 .* has 7 there, counted from 1/],
      [{ message: 0, replacement: '' }, /counted from 1/],
      [{ systemMessage: { agent: 'nobody', text: '' } }, /no agent "nobody".*solver, critic/],
      [{ toolResult: { callId: 'call_99' }, replacement: '' }, /call_99.*call_2 of square in message 2/],
      [{ toolResult: { message: 3 }, replacement: '' }, /No result of a tool.*none/],
      [{ toolResult: {}, replacement: '' }, /needs the callId/],
      [{ message: -1, replacement: '' }, /"message".*must be a number, counted from 1, or "last"/],
      [{ message: 2, replacement: '', isError: true } as Intervention, /isError/],
      [
        { message: 2, replacement: '', systemMessage: { agent: 'solver', text: '' } },
        /one thing.*found message, systemMessage/,
      ],
      [{} as Intervention, /found none/],
    ];
    for (const [intervention, message] of refused) {
      const attempt = intervene(parts, lastId, { ...RUN, ...intervention });
      await expect(attempt).rejects.toThrow(message);
      await expect(attempt).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    }
    for (const wrong of [{ rounds: 0 }, { rounds: 0.5 }, { mode: 'frozen' as never }]) {
      const attempt = intervene(parts, lastId, { ...RUN, message: 2, replacement: 'No.', ...wrong });
      await expect(attempt).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    }
    expect((await manager.branches('team')).map(({ branch }) => branch)).toEqual(['main']);
  });

  test('[repair.4] a checkpoint that was deleted is said to be', async () => {
    const manager = open();
    const { parts, original, lastId } = await record(manager);
    const appended = original.filter(({ trigger }) => trigger === 'message_appended');
    await manager.delete(appended[2]?.id ?? '');
    const attempt = intervene(parts, lastId, { ...RUN, message: 3, replacement: 'No.' });
    await expect(attempt).rejects.toMatchObject({ code: 'NOT_FOUND', details: { deletedCount: 1 } });
    const later = await intervene(parts, lastId, { ...RUN, message: 4, replacement: 'No.' });
    expect(later.messages[3]?.content).toBe('No.');
  });

  test('[repair.5] the last message is what was said last, also if only its speaker knows it yet', async () => {
    const manager = open();
    const { parts, original } = await record(manager);
    const half = original.filter(({ trigger }) => trigger === 'speaker_reply_generated')[2];
    const result = await intervene(parts, half?.id ?? '', { ...RUN, rounds: 1, message: 'last', replacement: 'Nine.' });
    expect(result).toMatchObject({ newMessages: 1, intervention: { index: 3, agent: 'solver' } });
    const state = await load(manager, result.checkpointId);
    for (const agent of ['solver', 'critic']) expect(words(state, agent).at(-1)).toBe('Nine.');
  });

  test('[repair.5] a message that ended the conversation, edited, ends it no more', async () => {
    const manager = open();
    const { parts, lastId } = await record(manager, { end: { signals: ['seen 3'] } });
    const result = await intervene(parts, lastId, { ...RUN, message: 'last', replacement: 'Go on.' });
    expect(result).toMatchObject({ newMessages: 3, end: { reason: 'max_rounds' } });
    const ended = await intervene(parts, lastId, { ...RUN, message: 2, replacement: 'I have seen 3.' });
    expect(ended).toMatchObject({ newMessages: 0, end: { reason: 'signal', signal: 'seen 3' } });
  });

  test('[repair.5] branches of branches can be edited at any of their messages', async () => {
    const manager = open();
    const { parts, lastId } = await record(manager);
    const first = await intervene(parts, lastId, { ...RUN, message: 3, replacement: 'No.' });
    const second = await intervene(parts, first.checkpointId ?? '', { ...RUN, message: 3, replacement: 'Never.' });
    expect(second.baseId).toBe(first.editedId);
    expect(second.messages[2]).toMatchObject({ content: 'Never.', edited: { originalChars: 3 } });
    const third = await intervene(parts, second.checkpointId ?? '', { ...RUN, message: 2, replacement: 'Four.' });
    expect(third.messages.map(({ content }) => content).slice(0, 2)).toEqual([
      'Square the number of messages.',
      'Four.',
    ]);
    const tool = { toolResult: { message: 4 }, replacement: '1' };
    const fourth = await intervene(parts, second.checkpointId ?? '', { ...RUN, ...tool, rounds: 1 });
    expect(fourth.messages.map(({ content }) => content).slice(2)).toEqual(['Never.', 'The square is 1.']);
  });

  test('[repair.5] a turn that failed once and was resumed can be taken again', async () => {
    const manager = open();
    let failures = 0;
    // The solver's second turn fails at first.
    const script = (request: ModelRequest) =>
      request.messages.length === 6 && failures++ === 0 ? { status: 503 } : answerOf(request);
    const { chat, registry } = createTeam({ maxRounds: 4 }, script);
    const hold = () => new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false });
    expect(await hold().run({ message: 'Hello.' })).toMatchObject({ status: 'failed' });
    const { checkpointId = '' } = await hold().resume();
    const request = { ...RUN, rounds: 1, toolResult: { callId: 'call_6' }, replacement: '5' };
    const result = await intervene({ manager, registry }, checkpointId, request);
    expect(result.messages.at(-1)?.content).toBe('The square is 5.');
    expect(failures).toBe(2);
  });

  test('[repair.6] the same words again change nothing: in recorded mode no call is made and nothing diverges', async () => {
    const manager = open();
    const { parts, team, lastId } = await record(manager);
    const { messages } = (await load(manager, lastId)).chat;
    const asked = team.model.requests.length;
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: 5 }), fc.boolean(), async (index, isTool) => {
        const isTurn = isTool && index % 2 === 1;
        const intervention: Intervention = isTurn
          ? { toolResult: { message: index + 1 }, replacement: resultOf(messages[index]) }
          : { message: index + 1, replacement: messages[index]?.content ?? '' };
        const rounds = 6 - index + (isTurn ? 1 : 0);
        const result = await intervene(parts, lastId, { logs: false, mode: 'recorded', rounds, ...intervention });
        expect(result.messages).toEqual(messages);
        expect(team.model.requests.length).toBe(asked);
      }),
      drawn(200),
    );
    expect(team.calls.length).toBe(3);
  });

  test('[repair.6] other words in recorded mode use no recording that does not fit', async () => {
    const manager = open();
    const { parts, team, lastId } = await record(manager);
    const asked = team.model.requests.length;
    const request = { ...RUN, mode: 'recorded', message: 5, replacement: 'No.' } as const;
    await intervene(parts, lastId, { ...request, rounds: 2 });
    expect(team.model.requests.length).toBe(asked + 3);
  });
});
