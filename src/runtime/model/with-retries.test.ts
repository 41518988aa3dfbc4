import { afterEach, describe, expect, test } from 'vitest';
import { InvalidInputError, ModelError } from '../../core/errors.ts';
import { type ModelServer, type ScriptedAnswer, scriptedModel, startModelServer } from '../../testing/index.ts';
import { buildModel } from './build-model.ts';
import type { ChatModel, ModelRequest } from './chat-model.ts';
import { type RetryPolicy, withRetries } from './with-retries.ts';

const HELLO: ModelRequest = { messages: [{ role: 'user', content: 'hello' }] };

function retrying(script: readonly ScriptedAnswer[], policy: RetryPolicy = {}, random = () => 1) {
  const slept: number[] = [];
  const model = scriptedModel(script);
  const sleep = async (ms: number) => void slept.push(ms);
  return { model, slept, retried: withRetries(model, policy, { sleep, random }) };
}

test.each<[string, ScriptedAnswer]>([
  ['429', { status: 429 }],
  ['500', { status: 500 }],
  ['503', { status: 503 }],
  ['a lost connection', { cut: 'connection' }],
  ['garbage', { garbage: '<html>' }],
])('[model.6] after %s it asks again, with the same request', async (_, failure) => {
  const { model, retried } = retrying([failure, 'ok']);
  expect((await retried.reply(HELLO, { idempotencyKey: 'k' })).text).toBe('ok');
  expect(model.requests).toEqual([HELLO, HELLO]);
  expect(model.idempotencyKeys).toEqual(['k', 'k']);
});

test('[model.6] a timeout is a failure to ask again after', async () => {
  const { model, retried } = retrying([{ hang: true }, 'ok']);
  expect((await retried.reply({ ...HELLO, settings: { timeoutMs: 5 } })).text).toBe('ok');
  expect(model.requests).toHaveLength(2);
});

test('[model.6] it gives up after the last attempt, and says how many there were', async () => {
  const { model, slept, retried } = retrying([{ status: 500 }, { status: 502 }, { status: 503 }, 'never'], {
    maxAttempts: 3,
  });
  await expect(retried.reply(HELLO)).rejects.toMatchObject({
    code: 'MODEL',
    details: { attempts: 3, status: 503, retryable: true },
  });
  expect(model.requests).toHaveLength(3);
  expect(slept).toHaveLength(2);
});

test.each([400, 401, 403, 404, 422])('[model.6] status %i is final', async (status) => {
  const { model, retried } = retrying([{ status }, 'never']);
  await expect(retried.reply(HELLO)).rejects.toMatchObject({ details: { status, attempts: 1, retryable: false } });
  expect(model.requests).toHaveLength(1);
});

test('[model.6] errors that are not the provider’s pass at once', async () => {
  const error = new InvalidInputError('no');
  let calls = 0;
  const failing: ChatModel = {
    id: 'failing',
    reply: () => {
      calls++;
      return Promise.reject(error);
    },
  };
  await expect(withRetries(failing).reply(HELLO)).rejects.toBe(error);
  expect(calls).toBe(1);
});

test('[model.6] waits double up to the longest, less a random part', async () => {
  const failures = Array.from({ length: 5 }, () => ({ status: 500 }));
  const policy = { maxAttempts: 6, initialDelayMs: 100, maxDelayMs: 500 };
  const most = retrying([...failures, 'ok'], policy, () => 1);
  await most.retried.reply(HELLO);
  expect(most.slept).toEqual([100, 200, 400, 500, 500]);
  const least = retrying([...failures, 'ok'], policy, () => 0);
  await least.retried.reply(HELLO);
  expect(least.slept).toEqual([50, 100, 200, 250, 250]);
});

test('[model.6] it waits as long as the server says', async () => {
  const { slept, retried } = retrying([{ status: 429, retryAfterMs: 7000 }, 'ok'], { initialDelayMs: 1 });
  await retried.reply(HELLO);
  expect(slept).toEqual([7000]);
});

test('[model.6] a server that wants a longer wait than the policy allows is not asked again', async () => {
  const { model, slept, retried } = retrying([{ status: 429, retryAfterMs: 7000 }, 'never'], { maxDelayMs: 6999 });
  await expect(retried.reply(HELLO)).rejects.toMatchObject({ details: { attempts: 1, retryAfterMs: 7000 } });
  expect(model.requests).toHaveLength(1);
  expect(slept).toEqual([]);
});

test('[model.7] before streamed text begins anew, the caller is told', async () => {
  const { retried } = retrying([{ cut: 'connection', text: 'The ans' }, { status: 500 }, 'The answer.']);
  const heard: string[] = [];
  await retried.reply(HELLO, { onText: (delta) => heard.push(delta), onRestart: () => heard.push('|') });
  expect(heard.join('')).toBe('The ans|The answer.');
});

describe('abort', () => {
  test('[model.6] ends a wait with the reason of the caller', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const model = scriptedModel([{ status: 429, retryAfterMs: 30_000 }, 'never']);
    const reply = withRetries(model).reply(HELLO, { signal: controller.signal });
    const outcome = reply.catch((error: unknown) => error);
    await new Promise((resolve) => setImmediate(resolve));
    controller.abort(reason);
    expect(await outcome).toBe(reason);
    expect(model.requests).toHaveLength(1);
  });

  test('[model.6] after a wait that did not heed it, nothing more is asked', async () => {
    const controller = new AbortController();
    let calls = 0;
    const busy: ChatModel = {
      id: 'busy',
      reply: () => {
        calls++;
        return Promise.reject(new ModelError('busy', { details: { retryable: true } }));
      },
    };
    const sleep = async () => controller.abort(new Error('enough'));
    const reply = withRetries(busy, {}, { sleep }).reply(HELLO, { signal: controller.signal });
    await expect(reply).rejects.toThrow('enough');
    expect(calls).toBe(1);
  });
});

test.each([
  { maxAttempts: 0 },
  { maxAttempts: Number.NaN },
  { maxAttempts: 1.5 },
  { initialDelayMs: -1 },
  { maxDelayMs: Number.NaN },
])('[model.6] the policy %o is refused', (policy) => {
  expect(() => withRetries(scriptedModel([]), policy)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
});

describe('what servers send', () => {
  let server: ModelServer;
  afterEach(() => server.close());

  async function failWith(headers: Record<string, string>, body: object = {}): Promise<unknown> {
    server = await startModelServer({ answer: ['never'] });
    const refuse: typeof fetch = async () => Response.json(body, { status: 429, headers });
    const config = { provider: 'vllm', model: 'm', baseUrl: server.url, retry: { maxAttempts: 1 } } as const;
    const model = buildModel(config, { env: {}, fetch: refuse, now: () => Date.UTC(2030, 0, 1) });
    return model.reply(HELLO).catch((error: unknown) => error);
  }

  test.each([
    [{ 'retry-after': '3' }, 3000],
    [{ 'retry-after': '0.5' }, 500],
    [{ 'retry-after-ms': '250', 'retry-after': '3' }, 250],
    [{ 'retry-after': 'Tue, 01 Jan 2030 00:00:10 GMT' }, 10_000],
    [{ 'retry-after': 'Tue, 01 Jan 2019 00:00:10 GMT' }, 0],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '-1' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{}, undefined],
  ])('[model.6] %o means %s ms', async (headers, retryAfterMs) => {
    const error = (await failWith(headers as Record<string, string>)) as { details: { retryAfterMs?: number } };
    expect(error.details.retryAfterMs).toBe(retryAfterMs);
  });

  test('[model.6] who has no credit left is not helped by waiting', async () => {
    const body = { error: { message: 'You exceeded your quota', code: 'insufficient_quota' } };
    expect(await failWith({}, body)).toMatchObject({ details: { status: 429, retryable: false } });
  });
});
