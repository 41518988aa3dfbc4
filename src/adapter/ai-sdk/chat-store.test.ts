import type { UIMessage } from 'ai';
import { expect, test } from 'vitest';
import { SDKS } from '../../../test/support/ai-sdk.ts';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { chatStore } from './index.ts';

const say = (role: 'user' | 'assistant', id: string, text = id): UIMessage => ({
  id,
  role,
  parts: [{ type: 'text', text }],
});
const user = (id: string, text?: string) => say('user', id, text);
const bot = (id: string, text?: string) => say('assistant', id, text);
const idsOf = (messages: readonly UIMessage[]) => messages.map(({ id }) => id).join(' ');

describeOn(STORAGES)('chats in %s', (_, create) => {
  test('are trees: answered again, edited, switched, and read in another process', async () => {
    const { storage, reopen } = create();
    const open = () => chatStore(reopen?.() ?? storage);
    const chats = open();
    await chats.save('c', [user('u1')]);
    await chats.save('c', [user('u1'), bot('a1', 'long '.repeat(2000))]);
    await chats.save('c', [user('u1'), bot('a1', 'long '.repeat(2000)), user('u2'), bot('a2')]);
    expect(idsOf(await chats.regenerateFrom('c', 'a1'))).toBe('u1');
    expect(idsOf(await open().load('c'))).toBe('u1');
    await chats.save('c', [user('u1'), bot('a1b')]);
    expect(idsOf(await open().load('c'))).toBe('u1 a1b');
    expect(idsOf(await open().siblings('c', 'a1'))).toBe('a1 a1b');
    expect(idsOf(await open().load('c', { leaf: 'a1' }))).toBe('u1 a1');
    await open().setActiveLeaf('c', 'a1');
    expect(idsOf(await chats.load('c'))).toBe('u1 a1 u2 a2');
    expect((await chats.load('c'))[1]).toEqual(bot('a1', 'long '.repeat(2000)));
    expect(idsOf(await chats.regenerateFrom('c', 'u2'))).toBe('u1 a1 u2');
    await chats.save('c', [user('u2b')], { after: 'a1' });
    expect(idsOf(await chats.load('c'))).toBe('u1 a1 u2b');
    await chats.save('c', [bot('a3')]);
    expect(idsOf(await chats.load('c'))).toBe('u1 a1 u2b a3');
    await chats.save('c', [user('other')], { after: null });
    expect(idsOf(await chats.siblings('c', 'other'))).toBe('u1 other');
    expect((await new CheckpointManager({ storage }).verify()).findings).toEqual([]);
    expect(await chats.delete('c')).toBe(true);
    expect(await chats.load('c')).toEqual([]);
  });

  test('a message that is saved again says what it says now; the same again is no change', async () => {
    const { storage } = create();
    const chats = chatStore(storage);
    const answer = [user('u1'), bot('a1', 'half')];
    await chats.save('c/1', answer);
    await chats.save('c/1', answer);
    await chats.save('c/1', [user('u1'), bot('a1', 'whole')]);
    expect(await chats.load('c/1')).toEqual([user('u1'), bot('a1', 'whole')]);
    const { checkpoints } = await new CheckpointManager({ storage }).list({ sessionId: 'ai-sdk/c%002f1' });
    expect(checkpoints).toHaveLength(2);
  });

  test('two that save at once lose nothing', async () => {
    const { storage, reopen } = create();
    const [one, two] = [chatStore(storage), chatStore(reopen?.() ?? storage)];
    await one.save('c', [user('u')]);
    const save = (chats: typeof one, name: string) =>
      Promise.all(Array.from({ length: 5 }, (__, n) => chats.save('c', [user('u'), bot(`${name}${n}`)])));
    await Promise.all([save(one, 'x'), save(two, 'y')]);
    expect((await one.siblings('c', 'x0')).length).toBe(10);
  });
});

test.each(SDKS)(
  'ai %s: what a UI stream ends with is saved, and validated when it is loaded',
  async (_, sdk, scripted) => {
    const { convertToModelMessages, streamText, validateUIMessages } = sdk;
    const chats = chatStore(new InMemoryCheckpointStorage());
    const talk = async (ask: UIMessage, answer: string) => {
      const originalMessages = [...(await chats.load('c')), ask];
      const messages = await convertToModelMessages(originalMessages);
      const stream = streamText({ model: scripted(answer), messages }).toUIMessageStream({
        originalMessages,
        generateMessageId: () => `answer to ${ask.id}`,
        onFinish: async ({ messages: all }) => {
          await chats.save('c', all);
        },
      });
      for await (const chunk of stream) expect(chunk).toBeDefined();
    };
    await talk(user('1'), 'One.');
    await talk(user('2'), 'Two.');
    const messages = await validateUIMessages({ messages: await chats.load('c') });
    expect(idsOf(messages)).toBe('1 answer to 1 2 answer to 2');
    expect(messages.at(-1)?.parts.at(-1)).toMatchObject({ type: 'text', text: 'Two.', state: 'done' });
  },
);

test('bad input is refused, and nothing is changed', async () => {
  const storage = new InMemoryCheckpointStorage();
  const chats = chatStore(storage);
  await chats.save('c', [user('u')]);
  await expect(chats.save('c', [bot('')])).rejects.toThrow('generateMessageId');
  await expect(chats.save('c', [user('x'.repeat(201))])).rejects.toThrow('an id of at most 200 characters');
  await expect(chats.save('c', [bot('a'), bot('a')])).rejects.toThrow('Two messages have the id "a"');
  await expect(chats.save('c', [bot('a')], { after: 'x' })).rejects.toThrow('Chat "c" has no message "x"');
  await expect(chats.save('c', [bot('a')], { afterr: 'x' } as never)).rejects.toThrow('did you mean "after"?');
  await expect(chats.load('c', { leaf: 'x' })).rejects.toThrow('has no message "x"');
  await expect(chats.setActiveLeaf('c', 'x')).rejects.toThrow('has no message "x"');
  await expect(chats.load('')).rejects.toThrow('A chat id must');
  expect(() => chatStore('x' as never)).toThrow('A storage');
  expect(await chats.load('c')).toEqual([user('u')]);
  await new CheckpointManager({ storage }).save({ own: 1 }, { sessionId: 'ai-sdk/taken' });
  await expect(chats.load('taken')).rejects.toThrow('holds a state that is no transcript');
});

test('what cannot be kept is refused and not left out; maps and absent fields are as they were', async () => {
  const chats = chatStore(new InMemoryCheckpointStorage());
  const withData = (data: unknown) => ({ ...user('u'), metadata: { data, absent: undefined } });
  await expect(chats.save('c', [withData(() => 1)])).rejects.toThrow('metadata.data');
  const circle: unknown[] = [];
  circle.push(circle);
  await expect(chats.save('c', [withData(circle)])).rejects.toThrow('it is a reference to one of its own containers');
  expect(await chats.load('c')).toEqual([]);
  await chats.save('c', [withData(new Map([['a', 1]]))]);
  expect(await chats.load('c')).toEqual([{ ...user('u'), metadata: { data: new Map([['a', 1]]) } }]);
});

test('a circle that somebody made by hand ends where it began', async () => {
  const storage = new InMemoryCheckpointStorage();
  const chats = chatStore(storage);
  await chats.save('c', [user('1'), bot('2'), user('3')]);
  const manager = new CheckpointManager({ storage });
  const state = await manager.load<{ items: object[] }>({ sessionId: 'ai-sdk/c', at: '@' });
  const items = state.items.map((item, at) => (at === 0 ? { ...item, follows: '3' } : item));
  await manager.save({ ...state, items }, { sessionId: 'ai-sdk/c' });
  expect(idsOf(await chats.load('c'))).toBe('1 2 3');
  await chats.setActiveLeaf('c', '1');
  expect(await chats.load('c')).toHaveLength(3);
});
