import { MockLanguageModelV3, simulateReadableStream } from 'ai/test';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ModelError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type ModelServer, startModelServer } from '../../testing/index.ts';
import { buildModel } from './build-model.ts';
import type { LanguageModel, ModelReply, ModelRequest } from './chat-model.ts';
import { fromLanguageModel } from './from-language-model.ts';

const HELLO: ModelRequest = { messages: [{ role: 'user', content: 'hello' }] };
const SIGNED = { scripted: { signature: 'AbC+/=', nested: { list: [1, null, 'x'] } } };
const ADD = { name: 'add', inputSchema: { type: 'object' } } as const;

type LanguageModelV3 = InstanceType<typeof MockLanguageModelV3>;
type LanguageModelResult = Awaited<ReturnType<LanguageModelV3['doGenerate']>>;

const USAGE: LanguageModelResult['usage'] = {
  inputTokens: { total: 10, noCache: 6, cacheRead: 4, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined },
};

/** One reply in all its forms: at once and streamed, in both versions of the interface. */
const CONTENT: LanguageModelResult['content'] = [
  { type: 'reasoning', text: 'Hm, hm.', providerMetadata: SIGNED },
  { type: 'text', text: 'Hello there.', providerMetadata: { scripted: { id: 't1' } } },
  { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":1}', providerMetadata: SIGNED },
];

const PARTS: StreamPartV3[] = [
  { type: 'stream-start', warnings: [] },
  { type: 'response-metadata', id: 'r1', modelId: 'real-name' },
  { type: 'reasoning-start', id: '1' },
  { type: 'reasoning-delta', id: '1', delta: 'Hm, ' },
  { type: 'reasoning-delta', id: '1', delta: 'hm.' },
  { type: 'reasoning-end', id: '1', providerMetadata: SIGNED },
  { type: 'text-start', id: '1', providerMetadata: { scripted: { id: 't1' } } },
  { type: 'text-delta', id: '1', delta: 'Hello ' },
  { type: 'text-delta', id: '1', delta: '' },
  { type: 'text-delta', id: '1', delta: 'there.' },
  { type: 'text-end', id: '1' },
  { type: 'tool-input-start', id: 'c1', toolName: 'add' },
  { type: 'tool-input-delta', id: 'c1', delta: '{"a":1}' },
  { type: 'tool-input-end', id: 'c1' },
  { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":1}', providerMetadata: SIGNED },
];

const response = { id: 'r1', modelId: 'real-name' };

type V3Options = NonNullable<ConstructorParameters<typeof MockLanguageModelV3>[0]>;

function version3(more: V3Options = {}): MockLanguageModelV3 {
  const finish = { finishReason: { unified: 'tool-calls', raw: 'tool_calls' }, usage: USAGE } as const;
  const chunks = [...PARTS, { type: 'finish', ...finish }] as StreamPartV3[];
  return new MockLanguageModelV3({
    doGenerate: { content: CONTENT, ...finish, warnings: [], response },
    doStream: async () => ({ stream: simulateReadableStream({ chunks }) }),
    ...more,
  });
}

type StreamPartV3 =
  Awaited<ReturnType<LanguageModelV3['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never;

const EXPECTED: ModelReply = {
  messages: [
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'Hm, hm.', providerOptions: SIGNED },
        { type: 'text', text: 'Hello there.', providerOptions: { scripted: { id: 't1' } } },
        { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: { a: 1 }, providerOptions: SIGNED },
      ],
    },
  ],
  text: 'Hello there.',
  toolCalls: [{ id: 'c1', name: 'add', input: { a: 1 } }],
  finishReason: 'tool-calls',
  usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15, cachedInputTokens: 4 },
  model: 'real-name',
};

test('[model.1] a model gives the same reply at once and streamed, and prints nothing', async () => {
  const printed = (['log', 'info', 'warn', 'error'] as const).map((name) => vi.spyOn(console, name));
  const model = fromLanguageModel(version3());
  const request = { ...HELLO, tools: [ADD] };
  expect(await model.reply(request)).toEqual(EXPECTED);
  const deltas: string[] = [];
  expect(await model.reply(request, { onText: (delta) => deltas.push(delta) })).toEqual(EXPECTED);
  expect(deltas).toEqual(['Hello ', 'there.']);
  for (const spy of printed) expect(spy).not.toHaveBeenCalled();
  vi.restoreAllMocks();
});

test('[model.1] a model of an older interface is refused with what to use', () => {
  const old = { ...version3(), specificationVersion: 'v2' } as unknown as LanguageModel;
  expect(() => fromLanguageModel(old)).toThrow(/version v2 .* for ai 6 or 7/);
});

test('[model.3] what a provider put on a message comes back to it verbatim, also from a checkpoint', async () => {
  const mock = version3();
  const model = fromLanguageModel(mock);
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  const reply = await session.step('model', () => model.reply({ ...HELLO, tools: [ADD] }), { input: HELLO });
  const saved = await session.save({ messages: reply.messages });
  const { messages } = (await manager.load(saved)) as Pick<ModelReply, 'messages'>;
  const result: ModelRequest['messages'][number] = {
    role: 'tool',
    content: [{ type: 'tool-result', toolCallId: 'c1', toolName: 'add', output: { type: 'json', value: { b: 2 } } }],
  };
  await model.reply({ messages: [...HELLO.messages, ...messages, result], tools: [ADD] });
  expect(mock.doGenerateCalls[1]?.prompt[1]).toMatchObject({
    role: 'assistant',
    content: [
      { type: 'reasoning', text: 'Hm, hm.', providerOptions: SIGNED },
      { type: 'text', text: 'Hello there.', providerOptions: { scripted: { id: 't1' } } },
      { type: 'tool-call', toolCallId: 'c1', input: { a: 1 }, providerOptions: SIGNED },
    ],
  });
  await manager.close();
});

test('[model.2] system message and tools reach the model as they were given, and a tool choice that is not met is a reply', async () => {
  const mock = version3({
    doGenerate: {
      content: [{ type: 'text', text: 'No.' }],
      finishReason: { unified: 'stop', raw: 'stop' },
      usage: USAGE,
      warnings: [],
    },
  });
  const request: ModelRequest = { ...HELLO, system: 'Be brief.', tools: [ADD], toolChoice: 'required' };
  expect(await fromLanguageModel(mock).reply(request)).toMatchObject({ text: 'No.', toolCalls: [] });
  expect(mock.doGenerateCalls[0]).toMatchObject({
    prompt: [{ role: 'system', content: 'Be brief.' }, { role: 'user' }],
    tools: [{ type: 'function', name: 'add', inputSchema: { type: 'object' } }],
    toolChoice: { type: 'required' },
  });
});

test('[model.1] warnings of the provider are in the reply', async () => {
  const mock = version3({
    doGenerate: {
      content: [],
      finishReason: { unified: 'stop', raw: 'stop' },
      usage: USAGE,
      warnings: [
        { type: 'unsupported', feature: 'seed' },
        { type: 'other', message: 'Slow today.' },
      ],
    },
  });
  const warn = vi.spyOn(console, 'warn');
  const reply = await fromLanguageModel(mock).reply(HELLO);
  expect(reply.warnings).toEqual(['The model does not support seed.', 'Slow today.']);
  expect(warn).not.toHaveBeenCalled();
  vi.restoreAllMocks();
});

test('[model.1] cached input is counted at its own price', async () => {
  const prices = { inputPerMillionUsd: 100_000, outputPerMillionUsd: 200_000, cachedInputPerMillionUsd: 50_000 };
  expect((await fromLanguageModel(version3(), { prices }).reply(HELLO)).costUsd).toBeCloseTo(0.6 + 0.2 + 1);
});

test('[model.4] counts that a provider leaves out are 0', async () => {
  const usage = {
    inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: Number.NaN, text: undefined, reasoning: undefined },
  };
  const mock = version3({
    doGenerate: { content: [], finishReason: { unified: 'stop', raw: undefined }, usage, warnings: [] },
  });
  expect((await fromLanguageModel(mock).reply(HELLO)).usage).toEqual({
    inputTokens: 0,
    outputTokens: 0,
    totalTokens: 0,
  });
});

describe('what ends a call', () => {
  const hanging = () => version3({ doGenerate: () => new Promise(() => undefined) });

  test('[model.7] an attempt takes no longer than timeoutMs, even if the model does not heed its signal', async () => {
    const reply = fromLanguageModel(hanging()).reply({ ...HELLO, settings: { timeoutMs: 5 } });
    await expect(reply).rejects.toMatchObject({ code: 'MODEL', details: { reason: 'timeout', retryable: true } });
  });

  test('[model.7] a model that heeds its signal with an error of its own took too long all the same', async () => {
    const heeding = version3({
      doGenerate: ({ abortSignal }) =>
        new Promise((_, reject) => {
          abortSignal?.addEventListener('abort', () => reject(new DOMException('Aborted', 'AbortError')));
        }),
    });
    const reply = fromLanguageModel(heeding).reply({ ...HELLO, settings: { timeoutMs: 5 } });
    await expect(reply).rejects.toMatchObject({ code: 'MODEL', details: { reason: 'timeout', retryable: true } });
  });

  test('[model.5] an abort rejects with its own reason', async () => {
    const controller = new AbortController();
    const reply = fromLanguageModel(hanging()).reply(HELLO, { signal: controller.signal });
    const reason = new Error('enough');
    controller.abort(reason);
    await expect(reply).rejects.toBe(reason);
    await expect(fromLanguageModel(version3()).reply(HELLO, { signal: controller.signal })).rejects.toBe(reason);
  });

  test('[model.5] an error of the listener is the caller’s own', async () => {
    const error = new TypeError('listener');
    const onText = () => {
      throw error;
    };
    await expect(fromLanguageModel(version3()).reply(HELLO, { onText })).rejects.toBe(error);
  });

  test('[model.7] a model that talks on after its time is over is not heard', async () => {
    let controller: ReadableStreamDefaultController<StreamPartV3> | undefined;
    const stream = new ReadableStream<StreamPartV3>({
      start(given) {
        controller = given;
      },
    });
    const heard: string[] = [];
    const reply = fromLanguageModel(version3({ doStream: async () => ({ stream }) })).reply(
      { ...HELLO, settings: { timeoutMs: 20 } },
      { onText: (delta) => heard.push(delta) },
    );
    controller?.enqueue({ type: 'text-start', id: '1' });
    controller?.enqueue({ type: 'text-delta', id: '1', delta: 'in time' });
    await expect(reply).rejects.toMatchObject({ details: { reason: 'timeout' } });
    controller?.enqueue({ type: 'text-delta', id: '1', delta: 'too late' });
    await new Promise((resolve) => setImmediate(resolve));
    expect(heard).toEqual(['in time']);
  });

  test('[model.5] a request that cannot be sent is the caller’s fault', async () => {
    const model = fromLanguageModel(version3());
    await expect(model.reply({ messages: [] })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const unanswered: ModelRequest = { messages: [...HELLO.messages, ...EXPECTED.messages, ...HELLO.messages] };
    await expect(model.reply(unanswered)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const odd = [{ role: 'robot', content: 'x' }] as unknown as ModelRequest['messages'];
    await expect(model.reply({ messages: odd })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test.each<[string, unknown]>([
    ['an error', new Error('odd')],
    ['a text', 'odd'],
    ['an object', { message: 'odd', code: 7 }],
    ['nothing', undefined],
  ])('[model.5] whatever a model throws, here %s, is MODEL', async (_, thrown) => {
    const mock = version3({ doGenerate: () => Promise.reject(thrown) });
    const error = await fromLanguageModel(mock, { id: 'odd-model' })
      .reply(HELLO)
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ code: 'MODEL', details: { model: 'odd-model', attempts: 1 } });
  });
});

describe('a failure', () => {
  let server: ModelServer;
  afterEach(() => server.close());

  test('[model.5] can be recorded with its step, without the request, and is there in a frozen replay', async () => {
    server = await startModelServer({ answer: [{ status: 500, message: 'out of order' }] });
    const config = { provider: 'vllm', model: 'm', baseUrl: server.url, retry: { maxAttempts: 1 } } as const;
    const model = buildModel(config, { env: {} });
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const session = await manager.session('s');
    const request: ModelRequest = { messages: [{ role: 'user', content: 'a long question' }] };
    const ask = () => model.reply(request);
    await expect(session.step('model', ask, { input: request })).rejects.toMatchObject({ code: 'MODEL' });
    await session.save({});
    const frozen = await manager.session('s', { mode: 'frozen', replayFrom: 'start' });
    const error = await frozen.step('model', ask, { input: request }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      name: 'ModelError',
      code: 'MODEL',
      message: 'vllm:m did not answer: status 500: out of order. Try again later.',
      details: { model: 'vllm:m', reason: 'status', status: 500, retryable: true, attempts: 1 },
      cause: { name: 'AI_APICallError', statusCode: 500, responseBody: expect.stringContaining('out of order') },
    });
    expect(error).not.toHaveProperty('incomplete');
    expect(JSON.stringify([error, { ...((error as Error).cause as Error) }])).not.toContain('a long question');
    expect(server.requests).toHaveLength(1);
    await manager.close();
  });

  test('[model.5] a server that is not there is a lost connection', async () => {
    server = await startModelServer({ answer: [] });
    await server.close();
    const config = { provider: 'vllm', model: 'm', baseUrl: server.url, retry: { maxAttempts: 1 } } as const;
    await expect(buildModel(config, { env: {} }).reply(HELLO)).rejects.toMatchObject({
      details: { reason: 'connection', retryable: true },
    });
  });
});
