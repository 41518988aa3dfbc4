import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { type ModelServer, type ScriptedAnswer, startModelServer } from '../../testing/index.ts';
import type { ModelServerOptions } from '../../testing/model/model-server.ts';
import { type BuildOptions, buildModel } from './build-model.ts';
import type { CallOptions, ModelMessage, ModelReply, ModelRequest } from './chat-model.ts';
import type { LlmConfig } from './llm-config.ts';

const KEY = 'sk-loopback-0123456789abcdef';
const ADD = {
  name: 'add',
  description: 'Adds.',
  inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
};
const HELLO: ModelRequest = { messages: [{ role: 'user', content: 'hello' }] };

let server: ModelServer;

async function serve(answer: ModelServerOptions['answer'], apiKey = KEY): Promise<void> {
  server = await startModelServer({ answer, apiKey });
}

afterEach(() => server.close());

/** Every way to a model that there is, by name. */
const PATHS: Record<string, (url: string) => { config: LlmConfig; env: BuildOptions['env'] }> = {
  'openai chat': (baseUrl) => ({
    config: { provider: 'openai', model: 'gpt-test', baseUrl },
    env: { OPENAI_API_KEY: KEY },
  }),
  'openai responses': (baseUrl) => ({
    config: { provider: 'openai', model: 'gpt-test', baseUrl, api: 'responses' },
    env: { OPENAI_API_KEY: KEY },
  }),
  'azure v1': (baseUrl) => ({
    config: { provider: 'azure', model: 'gpt-test', baseUrl: baseUrl.replace('/v1', '/openai/v1') },
    env: { AZURE_OPENAI_API_KEY: KEY },
  }),
  'azure deployment': (baseUrl) => ({
    config: { provider: 'azure', model: 'gpt-test', apiVersion: '2024-10-21', deployment: 'mine' },
    env: { AZURE_API_KEY: KEY, AZURE_OPENAI_ENDPOINT: baseUrl.replace('/v1', '') },
  }),
  'openai-compatible': (baseUrl) => ({
    config: { provider: 'openai-compatible', model: 'gpt-test', baseUrl, apiKey: 'env:MY_KEY' },
    env: { MY_KEY: KEY },
  }),
  ollama: (baseUrl) => ({ config: { provider: 'ollama', model: 'gpt-test', baseUrl }, env: { OLLAMA_API_KEY: KEY } }),
};

function open(path: string, more: Partial<LlmConfig> = {}) {
  const { config, env } = (PATHS[path] ?? missing)(server.url);
  return buildModel({ ...config, ...more }, { env, sleep: async () => undefined });
}

function missing(): never {
  throw new Error('no such path');
}

/** Asks, streamed or not; the text as it came is checked against the reply's. */
async function ask(path: string, request: ModelRequest, isStreamed: boolean): Promise<ModelReply> {
  const deltas: string[] = [];
  const reply = await open(path).reply(request, isStreamed ? { onText: (delta) => deltas.push(delta) } : {});
  expect(deltas.join('')).toBe(isStreamed ? reply.text : '');
  expect(server.requests.at(-1)?.body.stream).toBe(isStreamed ? true : undefined);
  return reply;
}

const WAYS = Object.keys(PATHS).flatMap((path) => [
  { path, isStreamed: false },
  { path, isStreamed: true },
]);

describe('the real packages against a server', () => {
  test.each(WAYS)('[model.1] $path answers, streamed: $isStreamed', async ({ path, isStreamed }) => {
    await serve([{ text: 'Hello there, you.', usage: { inputTokens: 12, outputTokens: 5 } }]);
    expect(await ask(path, HELLO, isStreamed)).toMatchObject({
      text: 'Hello there, you.',
      messages: [{ role: 'assistant', content: [{ type: 'text', text: 'Hello there, you.' }] }],
      toolCalls: [],
      finishReason: 'stop',
      usage: { inputTokens: 12, outputTokens: 5, totalTokens: 17 },
      model: path === 'azure deployment' ? 'mine' : 'gpt-test',
    } satisfies Partial<ModelReply>);
  });

  test.each(WAYS)(
    '[model.2] $path calls tools and gets their results, streamed: $isStreamed',
    async ({ path, isStreamed }) => {
      const toolCalls = [
        { id: 'one', name: 'add', input: { a: 1 } },
        { id: 'two', name: 'add', input: { a: 2 } },
      ];
      await serve([{ text: 'Let me see.', toolCalls }, 'It is 3.']);
      const request: ModelRequest = { ...HELLO, system: 'Add.', tools: [ADD], toolChoice: 'required' };
      const first = await ask(path, request, isStreamed);
      expect(first).toMatchObject({ text: 'Let me see.', toolCalls, finishReason: 'tool-calls' });
      expect(first.messages).toHaveLength(1);
      expect(server.requests[0]?.body).toMatchObject({ tool_choice: 'required' });
      expect(JSON.stringify(server.requests[0]?.body.tools)).toContain('"name":"add"');

      const results: ModelMessage = {
        role: 'tool',
        content: toolCalls.map(({ id, name }) => ({
          type: 'tool-result',
          toolCallId: id,
          toolName: name,
          output: { type: 'text', value: `result of ${id}` },
        })),
      };
      const second = await ask(
        path,
        { ...request, messages: [...HELLO.messages, ...first.messages, results] },
        isStreamed,
      );
      expect(second.text).toBe('It is 3.');
      const sent = JSON.stringify(server.requests[1]?.body);
      for (const part of ['one', 'two', 'result of one', 'result of two', 'Let me see.', 'Add.'])
        expect(sent).toContain(part);
    },
  );

  test.each([
    ['openai chat', '/v1/chat/completions', {}],
    ['openai responses', '/v1/responses', {}],
    ['azure v1', '/openai/v1/chat/completions', {}],
    ['azure deployment', '/openai/deployments/mine/chat/completions', { 'api-version': '2024-10-21' }],
    ['openai-compatible', '/v1/chat/completions', {}],
  ])('[model.10] %s asks %s', async (path, address, query) => {
    await serve(['ok']);
    await ask(path, HELLO, false);
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({ path: address, query });
    const headers = server.requests[0]?.headers;
    expect(path.startsWith('azure') ? headers?.['api-key'] : headers?.authorization).toContain(KEY);
  });

  test('[model.10] an Azure resource has the address that Azure documents', async () => {
    await serve(['one', 'two']);
    const asked: string[] = [];
    const redirect: typeof fetch = (input, init) => {
      const url = new URL(String(input));
      asked.push(url.href);
      return fetch(`${server.origin}${url.pathname}${url.search}`, init);
    };
    const azure = { provider: 'azure', model: 'gpt-test' } as const;
    const options = { env: { AZURE_OPENAI_API_KEY: KEY }, fetch: redirect };
    await buildModel({ ...azure, resourceName: 'my-resource' }, options).reply(HELLO);
    const dated = {
      ...options,
      env: { ...options.env, AZURE_RESOURCE_NAME: 'other', OPENAI_API_VERSION: '2024-10-21' },
    };
    await buildModel(azure, dated).reply(HELLO);
    expect(asked).toEqual([
      'https://my-resource.openai.azure.com/openai/v1/chat/completions?api-version=v1',
      'https://other.openai.azure.com/openai/deployments/gpt-test/chat/completions?api-version=2024-10-21',
    ]);
  });

  test('[model.1] settings reach the server; those of the request go before those of the configuration', async () => {
    await serve(['ok']);
    const model = open('openai chat', {
      temperature: 0.1,
      topP: 0.5,
      maxOutputTokens: 99,
      seed: 7,
      stopSequences: ['END'],
      providerOptions: { openai: { user: 'me', serviceTier: 'auto' } },
    });
    await model.reply({
      ...HELLO,
      settings: { temperature: 0.9, providerOptions: { openai: { user: 'you' } } },
    });
    expect(server.requests[0]?.body).toMatchObject({
      temperature: 0.9,
      top_p: 0.5,
      max_tokens: 99,
      seed: 7,
      stop: ['END'],
      user: 'you',
      service_tier: 'auto',
    });
  });

  test('[model.1] costs are told if prices are given, and only then', async () => {
    const usage = { inputTokens: 1_000_000, outputTokens: 500_000 };
    await serve([
      { text: 'a', usage },
      { text: 'b', usage },
    ]);
    const prices = { inputPerMillionUsd: 2, outputPerMillionUsd: 8 };
    expect((await open('openai chat', { prices }).reply(HELLO)).costUsd).toBe(6);
    expect(await open('openai chat').reply(HELLO)).not.toHaveProperty('costUsd');
  });

  test.each([
    { path: 'openai chat', isStreamed: false },
    { path: 'openai-compatible', isStreamed: true },
  ])('[model.7] $path is asked again if it hangs, streamed: $isStreamed', async ({ path, isStreamed }) => {
    await serve([{ hang: true }, 'Awake.']);
    expect((await ask(path, { ...HELLO, settings: { timeoutMs: 1000 } }, isStreamed)).text).toBe('Awake.');
    expect(server.requests).toHaveLength(2);
  });

  test('[model.7] the idempotency key of a step reaches the server with every attempt', async () => {
    await serve([{ status: 503 }, 'ok']);
    await open('openai chat').reply(HELLO, { idempotencyKey: 'eff_1' });
    expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual(['eff_1', 'eff_1']);
  });
});

describe('what a provider wants back', () => {
  test.each([false, true])('[model.3] reasoning goes back verbatim, streamed: %s', async (isStreamed) => {
    const reasoning = { text: 'I think.', encrypted: 'gAAAAABo+opaque/signature==' };
    await serve([{ text: 'So.', reasoning }, 'ok']);
    const config: LlmConfig = { provider: 'openai', model: 'o4-mini', baseUrl: server.url, api: 'responses' };
    const model = buildModel(config, { env: { OPENAI_API_KEY: KEY } });
    const call: CallOptions = isStreamed ? { onText: () => undefined } : {};
    const first = await model.reply(HELLO, call);
    expect(first.providerData).toEqual({ openai: { responseId: 'resp_0' } });
    const stored = JSON.parse(JSON.stringify(first)) as ModelReply;
    await model.reply({ messages: [...HELLO.messages, ...stored.messages, ...HELLO.messages] }, call);
    expect(server.requests[1]?.body.input).toContainEqual({
      type: 'reasoning',
      id: 'rs_0',
      encrypted_content: reasoning.encrypted,
      summary: [{ type: 'summary_text', text: 'I think.' }],
    });
  });

  test('[model.3] the responses API keeps nothing, so that an edited message reaches the model', async () => {
    await serve(['The answer is 41.', 'ok']);
    const first = await open('openai responses').reply(HELLO);
    const text = JSON.stringify(first.messages).replace('41', '42');
    const edited = JSON.parse(text) as ModelMessage[];
    await open('openai responses').reply({ messages: [...HELLO.messages, ...edited, ...HELLO.messages] });
    expect(server.requests.map(({ body }) => body.store)).toEqual([false, false]);
    const sent = JSON.stringify(server.requests[1]?.body);
    expect(sent).toContain('The answer is 42.');
    expect(sent).not.toContain('item_reference');
  });
});

describe('models that return nonsense', () => {
  const GARBAGE = [
    '',
    '<html>',
    '{}',
    '[]',
    'null',
    '{"choices":[]}',
    '{"choices":[{}]}',
    '{"choices":[{"message":{"content":5}}]}',
  ];
  const request: ModelRequest = { ...HELLO, tools: [ADD] };

  test.each(WAYS)(
    '[model.4] garbage is MODEL and retryable for $path, streamed: $isStreamed',
    async ({ path, isStreamed }) => {
      // A stream of the other API is told apart by the package: the configuration is wrong, and asking again does not help.
      const garbages = path === 'openai responses' ? GARBAGE.filter((text) => !text.includes('choices')) : GARBAGE;
      await serve(garbages.map((garbage) => ({ garbage })));
      const model = open(path, { retry: { maxAttempts: 1 } });
      const call: CallOptions = isStreamed ? { onText: () => undefined } : {};
      for (const garbage of garbages) {
        const error = await model.reply(request, call).catch((thrown: unknown) => thrown);
        expect(error, garbage).toMatchObject({ code: 'MODEL', details: { retryable: true } });
      }
    },
  );

  test.each(WAYS)(
    '[model.4] odd replies are replies for $path, streamed: $isStreamed',
    async ({ path, isStreamed }) => {
      const answers: ScriptedAnswer[] = [
        '',
        { toolCalls: [{ id: 'x', name: 'add', input: '{"a":' }] },
        { toolCalls: [{ id: 'y', name: 'nope', input: {} }] },
      ];
      await serve(answers);
      const replies: ModelReply[] = [];
      for (const _ of answers) replies.push(await ask(path, request, isStreamed));
      expect(replies[0]).toMatchObject({ text: '', messages: [], toolCalls: [], finishReason: 'stop' });
      expect(replies[1]?.toolCalls).toEqual([
        { id: 'x', name: 'add', input: '{"a":', problem: expect.stringContaining('not valid JSON') },
      ]);
      expect(replies[2]?.toolCalls).toEqual([
        { id: 'y', name: 'nope', input: {}, problem: 'There is no tool "nope".' },
      ]);
      // A provider wants an answer to each of them, and objects for input.
      expect(replies.slice(1).map(({ messages }) => messages)).toMatchObject([
        [{ role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'x', input: {} }] }],
        [{ role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'y', input: {} }] }],
      ]);
    },
  );

  test.each(['openai chat', 'openai-compatible', 'azure v1'])(
    '[model.4] an unknown finish reason is "other" for %s',
    async (path) => {
      await serve([{ text: 'x', finishReason: 'banana' }]);
      expect((await ask(path, HELLO, true)).finishReason).toBe('other');
    },
  );

  test.each(WAYS)('[model.4] half a reply is none for $path, streamed: $isStreamed', async ({ path, isStreamed }) => {
    await serve([
      { cut: 'connection', text: 'The answer is' },
      { cut: 'stream', text: 'The answer is' },
      'The answer is 42.',
    ]);
    expect((await ask2(path, isStreamed)).text).toBe('The answer is 42.');
    expect(server.requests).toHaveLength(3);
  });

  async function ask2(path: string, isStreamed: boolean): Promise<ModelReply> {
    let heard = '';
    const reply = await open(path).reply(
      HELLO,
      isStreamed ? { onText: (delta) => (heard += delta), onRestart: () => (heard = '') } : {},
    );
    if (isStreamed) expect(heard, '[model.7] text of attempts that broke off is taken back').toBe(reply.text);
    return reply;
  }
});

describe('keys', () => {
  test.each(Object.keys(PATHS))(
    '[model.8] the key of %s is in no request, reply, configuration or error',
    async (path) => {
      const echo = `Incorrect API key provided: ${KEY}.`;
      await serve(['ok', { status: 401, message: echo }]);
      const { config } = (PATHS[path] ?? missing)(server.url);
      const request: ModelRequest = { ...HELLO };
      const reply = await open(path).reply(request);
      const error = (await open(path)
        .reply(request)
        .catch((thrown: unknown) => thrown)) as Error & { readonly cause: Error };
      const { message, stack, cause } = error;
      const told = JSON.stringify([
        config,
        request,
        reply,
        error,
        message,
        stack,
        { ...cause },
        cause.message,
        cause.stack,
      ]);
      expect(told).not.toContain(KEY);
      expect(message).toContain('[secret apiKey]');
      expect(error).toMatchObject({ code: 'MODEL', details: { status: 401, retryable: false } });
      expect(JSON.stringify(server.requests[0]?.headers), 'the server did get it').toContain(KEY);
    },
  );

  test.each([
    ['openai', {}, 'OPENAI_API_KEY'],
    ['azure', { resourceName: 'r' }, 'AZURE_OPENAI_API_KEY'],
    ['openai', { apiKey: 'env:WORK_KEY' }, 'WORK_KEY'],
    ['ollama', { apiKey: 'env:WORK_KEY' }, 'WORK_KEY'],
  ] as const)('[model.9] %s with %o and no key is refused, and names %s', async (provider, more, variable) => {
    await serve([]);
    const build = () => buildModel({ provider, model: 'm', ...more }, { env: { OTHER: 'x', [variable]: '  ' } });
    expect(build).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(variable) }),
    );
  });

  test("[model.9] local servers need no key, and never get OpenAI's", async () => {
    server = await startModelServer({ answer: ['one', 'two', 'three', 'four'] });
    for (const provider of ['openai-compatible', 'ollama', 'vllm', 'lmstudio'] as const) {
      const env = { OPENAI_API_KEY: KEY, AZURE_OPENAI_API_KEY: KEY };
      await buildModel({ provider, model: 'm', baseUrl: server.url }, { env }).reply(HELLO);
    }
    expect(server.requests).toHaveLength(4);
    expect(JSON.stringify(server.requests)).not.toContain(KEY);
  });

  test('[model.9] a secret reference in the place of the key means the variable of the provider, or the one it names', async () => {
    await serve(['one', 'two']);
    const config = { provider: 'openai', model: 'm', baseUrl: server.url } as const;
    const options = { env: { OPENAI_API_KEY: KEY, WORK_KEY: 'wrong' } };
    expect((await buildModel({ ...config, apiKey: new SecretRef('apiKey') }, options).reply(HELLO)).text).toBe('one');
    const wrong = buildModel({ ...config, apiKey: new SecretRef('WORK_KEY') }, options).reply(HELLO);
    await expect(wrong).rejects.toMatchObject({ details: { status: 401 } });
  });

  test('[model.9] the address comes from the configuration, then from the environment, and must be one', async () => {
    await serve(['ok']);
    const config = { provider: 'openai', model: 'm' } as const;
    await buildModel(config, { env: { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: server.url } }).reply(HELLO);
    expect(server.requests).toHaveLength(1);
    const build = (more: object, env: object) => () =>
      buildModel({ ...config, ...more }, { env: { OPENAI_API_KEY: KEY, ...env } });
    expect(build({}, { OPENAI_BASE_URL: 'nowhere' })).toThrow(/OPENAI_BASE_URL must be an http/);
    expect(build({ provider: 'openai-compatible' }, {})).toThrow(/needs a baseUrl/);
    expect(build({ provider: 'azure' }, { AZURE_OPENAI_API_KEY: 'k' })).toThrow(/resourceName.*AZURE_OPENAI_ENDPOINT/);
  });

  test('[model.9] with allowed hosts a configuration cannot send the key elsewhere', async () => {
    await serve(['ok']);
    const config = { provider: 'openai', model: 'm', baseUrl: server.url } as const;
    const env = { OPENAI_API_KEY: KEY };
    expect(() => buildModel(config, { env, allowedHosts: ['api.openai.com'] })).toThrow(/allowed hosts/);
    await buildModel(config, { env, allowedHosts: [new URL(server.url).host] }).reply(HELLO);
    expect(server.requests).toHaveLength(1);
  });

  test.each(Object.keys(PATHS))(
    '[model.9] %s: a redirect takes neither key nor words to another host',
    async (path) => {
      await serve(['ok']);
      const elsewhere = server;
      const redirecting = createServer(({ url = '' }, response) =>
        response.writeHead(307, { location: `${elsewhere.origin}${url}` }).end(),
      ).listen(0, '127.0.0.1');
      await once(redirecting, 'listening');
      const { port } = redirecting.address() as AddressInfo;
      const { config, env } = (PATHS[path] ?? missing)(`http://127.0.0.1:${port}/v1`);
      const reply = buildModel(config, { env, sleep: async () => undefined }).reply(HELLO);
      await expect(reply).rejects.toMatchObject({ code: 'MODEL', details: { status: 307, retryable: false } });
      expect(elsewhere.requests).toEqual([]);
      redirecting.close();
    },
  );
});
