import { APICallError } from 'ai';
import { wrapLanguageModel as wrap7 } from 'ai7';
import { MockLanguageModelV4 } from 'ai7/test';
import { describe, expect, test } from 'vitest';
import { partsOf, SDKS } from '../../../test/support/ai-sdk.ts';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { recorded } from './index.ts';

const overloaded = () =>
  new APICallError({
    message: 'overloaded',
    url: 'u',
    requestBodyValues: {},
    responseHeaders: { 'retry-after-ms': '1' },
    isRetryable: true,
  });

describe.each(SDKS)('ai %s', (_, sdk, scripted) => {
  const { generateText, streamText, wrapLanguageModel } = sdk;

  describeOn(STORAGES)('in %s', (__, create) => {
    test('a call that was recorded is not made again, streamed or not', async () => {
      const { storage, reopen } = create();
      const ask = async (model: ReturnType<typeof scripted>) => {
        const session = await new CheckpointManager({ storage: reopen?.() ?? storage }).session('calls');
        const wrapped = wrapLanguageModel({ model, middleware: recorded(session) });
        const { text, response } = await generateText({
          model: wrapped,
          prompt: 'one',
          headers: { at: `${Math.random()}` },
        });
        const streamed = streamText({ model: wrapped, prompt: 'two', abortSignal: new AbortController().signal });
        const parts: string[] = [];
        for await (const part of streamed.textStream) parts.push(part);
        return { text, at: response.timestamp, parts, usage: await streamed.usage };
      };
      const first = await ask(scripted('One.', 'Two and more.'));
      expect(first).toMatchObject({ text: 'One.', at: new Date(7), parts: ['Two ', 'and ', 'more.'] });
      expect(await ask(scripted())).toEqual(first);
    });
  });

  test('a failure is no answer: the next attempt asks again, and its answer is the recorded one', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const ask = async (model: ReturnType<typeof scripted>) => {
      const session = await manager.session('retries');
      const wrapped = wrapLanguageModel({ model, middleware: recorded(session) });
      const { text } = await generateText({ model: wrapped, prompt: 'one', maxRetries: 1 });
      return `${text} ${await streamText({ model: wrapped, prompt: 'two', maxRetries: 1 }).text}`;
    };
    expect(await ask(scripted(overloaded(), 'One.', overloaded(), 'Two.'))).toBe('One. Two.');
    expect(await ask(scripted())).toBe('One. Two.');
  });

  test('frozen sessions replay without a model, and refuse what was not asked', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const ask = async (prompt: string, mode: 'live' | 'frozen') => {
      const middleware = recorded(await manager.session('frozen', { mode }), { name: 'desk' });
      return (await generateText({ model: wrapLanguageModel({ model: scripted('Yes.'), middleware }), prompt })).text;
    };
    await ask('a', 'live');
    expect(await ask('a', 'frozen')).toBe('Yes.');
    await expect(ask('b', 'frozen')).rejects.toThrow('Step "desk"');
  });
});

/** A session, and a model of version 4 whose streams the test feeds. */
async function fed(manager: CheckpointManager) {
  const session = await manager.session('fed');
  let feed: ReadableStreamDefaultController | undefined;
  const stream = new ReadableStream({
    start: (controller) => {
      feed = controller;
    },
  });
  const model = new MockLanguageModelV4({ doStream: async () => ({ stream }) });
  const wrapped = wrap7({ model, middleware: recorded(session) });
  const { stream: output } = await wrapped.doStream({ prompt: [] });
  return { feed: feed as ReadableStreamDefaultController, reader: output.getReader(), model };
}

const CALL = [{ id: 'c', tool: 'pay', input: {} }];

test('what a reader acts on arrives when the whole answer is recorded; the rest at once', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const { feed, reader } = await fed(manager);
  const [start, call, finish] = partsOf(CALL);
  feed.enqueue(start);
  expect((await reader.read()).value).toEqual(start);
  feed.enqueue(call);
  const seen = reader.read();
  const effects = async () => (await manager.session('fed', { mode: 'frozen' })).step('x', () => 1).catch(String);
  expect(await effects()).toContain('no recording left');
  feed.enqueue(finish);
  feed.close();
  expect((await seen).value).toEqual(call);
  expect((await reader.read()).value).toEqual(finish);
  expect((await reader.read()).done).toBe(true);
  const again = await fed(manager);
  expect(again.model.doStreamCalls).toHaveLength(0);
  expect((await again.reader.read()).value).toEqual(start);
});

test.each([
  ['cut', (feed: ReadableStreamDefaultController) => feed.close(), { done: true, value: undefined }],
  [
    'an error part',
    (feed: ReadableStreamDefaultController) => {
      feed.enqueue({ type: 'error', error: 'busy' });
      feed.close();
    },
    { done: false, value: { type: 'error', error: 'busy' } },
  ],
])('an answer that is %s is not recorded, and no tool runs for it', async (_, end, last) => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const { feed, reader } = await fed(manager);
  const [start, call] = partsOf(CALL);
  feed.enqueue(start);
  feed.enqueue(call);
  end(feed);
  expect((await reader.read()).value).toEqual(start);
  expect(await reader.read()).toEqual(last);
  const again = await fed(manager);
  expect(again.model.doStreamCalls).toHaveLength(1);
});

test('a reader that gives up ends the call; a stream that breaks breaks for its reader', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const { feed, reader } = await fed(manager);
  feed.enqueue(partsOf('x')[0]);
  await reader.read();
  await reader.cancel('enough');
  expect(() => feed.enqueue(1)).toThrow();
  const broken = await fed(manager);
  expect(broken.model.doStreamCalls).toHaveLength(1);
  broken.feed.error(new Error('the line is cut'));
  await expect(broken.reader.read()).rejects.toThrow('the line is cut');
});

test('bad input is refused', async () => {
  const session = await new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).session('s');
  expect(() => recorded({} as never)).toThrow('The session of recorded()');
  expect(() => recorded(session, { nam: 'x' } as never)).toThrow('did you mean "name"?');
});
