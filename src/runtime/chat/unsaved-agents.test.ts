import { expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatRunOptions } from './chat-run.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';

/** Ann, and Bob with or without checkpoints of his own. */
function open(checkpoint: boolean) {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  let calls = 0;
  const model = scriptedModel(() => `Reply ${++calls}.`, { id: 'm' });
  const manage = (options: ChatRunOptions = {}) => {
    const agents = ['ann', 'bob'].map((name) => {
      return new StandardAgent({
        name,
        model,
        ...(name === 'bob' && { runtime: { stream: true, store: false, checkpoint } }),
      });
    });
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 4 });
    return new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false, ...options });
  };
  const count = async () => (await manager.list({ sessionId: 's' })).checkpoints.length;
  return { manage, count, calls: () => calls };
}

const WORDS = ['Hello.', 'Reply 1.', 'Reply 2.', 'Reply 3.', 'Reply 4.'];

test('[chat.1] what an agent with checkpoint: false says is in the next checkpoint', async () => {
  const [normal, quiet] = [open(true), open(false)];
  for (const { manage } of [normal, quiet]) {
    const { messages } = await manage().run({ message: 'Hello.' });
    expect(messages.map(({ content }) => content)).toEqual(WORDS);
  }
  expect((await normal.count()) - (await quiet.count())).toBe(4);
});

test('[chat.1] a run that stops after such a message is resumed without another call', async () => {
  const { manage, calls } = open(false);
  const stop = new AbortController();
  const onMessage = ({ name }: { readonly name: string }): void => {
    if (name === 'bob') stop.abort();
  };
  expect(await manage({ signal: stop.signal, onMessage }).run({ message: 'Hello.' })).toMatchObject({
    status: 'stopped',
  });
  const { messages } = await manage().resume();
  expect([messages.map(({ content }) => content), calls()]).toEqual([WORDS, 4]);
});
