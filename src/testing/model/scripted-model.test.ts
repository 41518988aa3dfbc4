import { expect, test } from 'vitest';
import type { ModelRequest } from '../../runtime/model/chat-model.ts';
import type { ScriptedAnswer } from './scripted-answer.ts';
import { scriptedModel } from './scripted-model.ts';

const HELLO: ModelRequest = { messages: [{ role: 'user', content: 'hello' }] };
const ADD = { name: 'add', inputSchema: { type: 'object' } } as const;

test('[model.11] it answers from a list in order, and remembers what it was asked', async () => {
  const model = scriptedModel(['one', { text: 'two', finishReason: 'length' }], { id: 'mine' });
  const messages = [...HELLO.messages];
  const first = await model.reply({ messages }, { idempotencyKey: 'k1' });
  messages.push({ role: 'user', content: 'later' });
  const second = await model.reply({ messages });
  expect(first).toEqual({
    messages: [{ role: 'assistant', content: [{ type: 'text', text: 'one' }] }],
    text: 'one',
    toolCalls: [],
    finishReason: 'stop',
    usage: { inputTokens: 12, outputTokens: 1, totalTokens: 13 },
    model: 'mine',
  });
  expect(second).toMatchObject({ text: 'two', finishReason: 'length' });
  expect(model.requests).toEqual([HELLO, { messages }]);
  expect(model.idempotencyKeys).toEqual(['k1', undefined]);
});

test('[model.11] an answer that is none is INVALID_INPUT', async () => {
  for (const answer of [null, 5, undefined])
    await expect(scriptedModel(() => answer as never).reply(HELLO)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(`it is ${answer}. Give a text, or an object.`),
    });
});

test('[model.11] a list that has come to its end is INVALID_INPUT', async () => {
  const model = scriptedModel([]);
  await expect(model.reply(HELLO)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

test('[model.11] it answers from a function of the request', async () => {
  const model = scriptedModel(async ({ messages }, index) => `${index}: ${messages.length} messages`);
  await model.reply(HELLO);
  expect((await model.reply({ messages: [...HELLO.messages, ...HELLO.messages] })).text).toBe('1: 2 messages');
});

test('[model.11] it streams in the chunks of the script, or word by word', async () => {
  const model = scriptedModel([{ chunks: ['Hel', 'lo'] }, 'Hello there,\nyou']);
  const heard: string[] = [];
  const onText = (delta: string) => heard.push(delta);
  expect((await model.reply(HELLO, { onText })).text).toBe('Hello');
  await model.reply(HELLO, { onText });
  expect(heard).toEqual(['Hel', 'lo', 'Hello ', 'there,\n', 'you']);
});

test('[model.11] it calls tools, and calls that cannot be run have the problem a real model’s would have', async () => {
  const model = scriptedModel([
    {
      text: 'Let me see.',
      toolCalls: [
        { name: 'add', input: { a: 1 } },
        { id: 'own', name: 'add', input: '{"a":' },
        { name: 'nope', input: {} },
      ],
      reasoning: { text: 'Hm.', encrypted: 'opaque' },
    },
  ]);
  const reply = await model.reply({ ...HELLO, tools: [ADD] });
  expect(reply.finishReason).toBe('tool-calls');
  expect(reply.toolCalls).toEqual([
    { id: 'call_0_0', name: 'add', input: { a: 1 } },
    { id: 'own', name: 'add', input: '{"a":', problem: expect.stringContaining('not valid JSON') },
    { id: 'call_0_2', name: 'nope', input: {}, problem: 'There is no tool "nope".' },
  ]);
  expect(reply.messages).toEqual([
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'Hm.', providerOptions: { scripted: { encrypted: 'opaque' } } },
        { type: 'text', text: 'Let me see.' },
        { type: 'tool-call', toolCallId: 'call_0_0', toolName: 'add', input: { a: 1 } },
        { type: 'tool-call', toolCallId: 'own', toolName: 'add', input: {} },
        { type: 'tool-call', toolCallId: 'call_0_2', toolName: 'nope', input: {} },
      ],
    },
  ]);
});

test.each<[ScriptedAnswer, object]>([
  [
    { status: 429, retryAfterMs: 5 },
    { reason: 'status', status: 429, retryable: true, retryAfterMs: 5 },
  ],
  [{ status: 400 }, { reason: 'status', status: 400, retryable: false }],
  [{ cut: 'connection' }, { reason: 'connection', retryable: true }],
  [{ garbage: '?' }, { reason: 'unreadable', retryable: true }],
])('[model.11] %o fails as a real model does', async (answer, details) => {
  await expect(scriptedModel([answer]).reply(HELLO)).rejects.toMatchObject({ code: 'MODEL', details });
});

test('[model.11] it takes its time, and hangs until it is stopped', async () => {
  const slept: number[] = [];
  const model = scriptedModel([{ text: 'late', delayMs: 60_000 }, { hang: true }, { hang: true }], {
    sleep: async (ms) => void slept.push(ms),
  });
  expect((await model.reply(HELLO)).text).toBe('late');
  expect(slept).toEqual([60_000]);
  const controller = new AbortController();
  const hanging = model.reply(HELLO, { signal: controller.signal });
  controller.abort(new Error('enough'));
  await expect(hanging).rejects.toThrow('enough');
  await expect(model.reply({ ...HELLO, settings: { timeoutMs: 1 } })).rejects.toMatchObject({
    details: { reason: 'timeout' },
  });
});

test('[model.11] a delay ends with the caller’s signal', async () => {
  const controller = new AbortController();
  const reply = scriptedModel([{ text: 'late', delayMs: 60_000 }]).reply(HELLO, { signal: controller.signal });
  const outcome = reply.catch((error: unknown) => error);
  await new Promise((resolve) => setImmediate(resolve));
  controller.abort(new Error('enough'));
  expect(await outcome).toMatchObject({ message: 'enough' });
});

test('[model.11] usage and costs are those of the script', async () => {
  const usage = { inputTokens: 1_000_000, outputTokens: 1_000_000 };
  const prices = { inputPerMillionUsd: 1, outputPerMillionUsd: 2 };
  const reply = await scriptedModel([{ text: 'x', usage }], { prices }).reply(HELLO);
  expect(reply).toMatchObject({ usage: { ...usage, totalTokens: 2_000_000 }, costUsd: 3 });
});
