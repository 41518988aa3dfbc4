import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatRunOptions } from './chat-run.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat, type GroupChatOptions } from './group-chat.ts';

const NAMES = ['ann', 'bob', 'cid'];

async function speakers(options: Partial<GroupChatOptions>, run: ChatRunOptions = {}) {
  const agents = NAMES.map((name) => new StandardAgent({ name, defaultReply: `I am ${name}.` }));
  const chat = new GroupChat({ agents, maxRounds: 6, ...options });
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const team = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false, ...run });
  const result = await team.run({ message: 'Go.' });
  return { result, names: result.messages.slice(1).map(({ name }) => name) };
}

describe('speakers', () => {
  test('[chat.4] in turn', async () => {
    expect((await speakers({ speakerSelection: 'round_robin' })).names).toEqual([...NAMES, ...NAMES]);
  });

  test('[chat.4] a state whose speakers cannot be selected is refused', () => {
    const agents = NAMES.map((name) => new StandardAgent({ name }));
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin' });
    const state = chat.saveState();
    const settings = { ...state.chat.settings, speakerSelection: null };
    expect(() => chat.loadState({ ...state, chat: { ...state.chat, settings } })).toThrow(
      /The state of this conversation is not complete: [\s\S]*speakerSelection/,
    );
  });

  test('[chat.4] by chance, the same for the same seed', async () => {
    const [one, again, other] = [
      await speakers({ speakerSelection: 'random', seed: 7 }),
      await speakers({ speakerSelection: 'random', seed: 7 }),
      await speakers({ speakerSelection: 'random', seed: 8 }),
    ];
    expect(one.names).toEqual(again.names);
    expect(one.names).not.toEqual(other.names);
  });

  test('[chat.4] by a model, which is asked again when it names nobody, and then the next in turn speaks', async () => {
    const answers = ['bob', 'I choose cid.', 'hm', 'no idea', 'who?', 'bob', 'ann', 'cid'];
    const selector = scriptedModel(answers, { id: 'selector' });
    const { names, result } = await speakers({ speakerSelection: 'auto', selector });
    expect(names).toEqual(['bob', 'cid', 'ann', 'bob', 'ann', 'cid']);
    expect(result.totals.modelCalls).toBe(selector.requests.length);
  });

  test('[chat.4] by a registered function, which must choose who may speak', async () => {
    const pick = (name: string | undefined) => new AgentRegistry({ selectors: { pick: () => name } });
    const chosen = { speakerSelection: { selector: 'pick' }, allowRepeatSpeaker: true } as const;
    expect((await speakers({ ...chosen, registry: pick('cid') })).names).toEqual(Array(6).fill('cid'));
    const nobody = await speakers({ ...chosen, registry: pick(undefined) });
    expect(nobody.result).toMatchObject({ end: { reason: 'no_next_speaker' }, newMessages: 1 });
    const wrong = await speakers({ ...chosen, registry: pick('dan') });
    expect(wrong.result).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('"dan"') } });
  });

  test('[chat.4] by a person', async () => {
    const answers = ['cid', 'nobody we know', 'ann', ''];
    const { names, result } = await speakers({ speakerSelection: 'manual' }, { ask: async () => answers.shift() });
    expect(names).toEqual(['cid', 'ann']);
    expect(result).toMatchObject({ end: { reason: 'no_next_speaker' } });
  });

  test('[chat.5] only as transitions allow', async () => {
    const allowedTransitions = { user: ['bob'], bob: ['cid'], cid: ['bob'] };
    const { names } = await speakers({ speakerSelection: 'round_robin', allowedTransitions });
    expect(names).toEqual(['bob', 'cid', 'bob', 'cid', 'bob', 'cid']);
    await expect(speakers({ allowedTransitions: { ann: ['dan'] } })).rejects.toThrow('"dan"');
  });
});
