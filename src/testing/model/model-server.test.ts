import { createOpenAI } from '@ai-sdk/openai';
import { cosineSimilarity, embedMany } from 'ai';
import { afterEach, expect, test } from 'vitest';
import { hashedEmbedding, type ModelServer, startModelServer } from './model-server.ts';

let server: ModelServer;
afterEach(() => server.close());

function post(path: string, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${server.origin}${path}`, { method: 'POST', body: JSON.stringify(body), headers });
}

test('[model.11] it records what it was asked, with headers and query', async () => {
  server = await startModelServer({ answer: ['ok'] });
  await post('/v1/chat/completions?x=1', { model: 'm', messages: [] }, { authorization: 'Bearer secret' });
  expect(server.requests).toMatchObject([
    {
      method: 'POST',
      path: '/v1/chat/completions',
      query: { x: '1' },
      headers: { authorization: 'Bearer secret' },
      body: { model: 'm', messages: [] },
    },
  ]);
});

test('[model.11] it answers from a function of the request', async () => {
  server = await startModelServer({ answer: ({ body }, index) => `${index} ${String(body.model)}` });
  const reply = await (await post('/v1/chat/completions', { model: 'm' })).json();
  expect(reply).toMatchObject({ choices: [{ message: { content: '0 m' }, finish_reason: 'stop' }] });
});

test('[model.11] wrong keys, paths and scripts get a status', async () => {
  server = await startModelServer({
    answer: () => {
      throw new Error('oops');
    },
    apiKey: 'right',
  });
  const key = { authorization: 'Bearer right' };
  expect((await post('/v1/chat/completions', {})).status).toBe(401);
  expect((await post('/v1/chat/completions', {}, { 'api-key': 'right' })).status).toBe(500);
  expect((await post('/v1/elsewhere', {}, key)).status).toBe(404);
  const failed = await post('/v1/responses', {}, key);
  expect(failed.status).toBe(500);
  expect(await failed.text()).toContain('oops');
});

test('[model.11] a list that has come to its end gets status 500', async () => {
  server = await startModelServer({ answer: [] });
  const response = await post('/v1/chat/completions', {});
  expect(response.status).toBe(500);
  expect(await response.text()).toContain('no answer for request 0');
});

test('[model.11] usage is streamed to those who ask for it', async () => {
  server = await startModelServer({ answer: ['a b', 'a b'] });
  const without = await (await post('/v1/chat/completions', { stream: true })).text();
  expect(without).not.toContain('usage');
  const body = { stream: true, stream_options: { include_usage: true } };
  const withUsage = await (await post('/v1/chat/completions', body)).text();
  expect(withUsage).toContain('"usage":{"prompt_tokens"');
  expect(withUsage.trimEnd().endsWith('data: [DONE]')).toBe(true);
});

test('[model.11] it ends also with requests that hang, and twice', async () => {
  server = await startModelServer({ answer: [{ hang: true }] });
  const hanging = post('/v1/chat/completions', {}).catch((error: unknown) => error);
  while (server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await server.close();
  expect(await hanging).toBeInstanceOf(Error);
  await server.close();
});

test('[model.11] embeddings are the same in every run, and nearer for texts that share words', async () => {
  server = await startModelServer({ answer: [] });
  const model = createOpenAI({ apiKey: 'k', baseURL: server.url }).embedding('text-embedding-3-small');
  const values = ['the cat sat on the mat', 'a cat on a mat', 'quarterly revenue grew'];
  const { embeddings, usage } = await embedMany({ model, values });
  const [first = [], second = [], third = []] = embeddings;
  expect(first).toEqual(hashedEmbedding(values[0] ?? ''));
  expect(first).toHaveLength(256);
  expect(Math.hypot(...first)).toBeCloseTo(1);
  expect(cosineSimilarity(first, second)).toBeGreaterThan(cosineSimilarity(first, third) + 0.2);
  expect(usage.tokens).toBeGreaterThan(0);
  const small = await embedMany({ model, values: ['x'], providerOptions: { openai: { dimensions: 8 } } });
  expect(small.embeddings[0]).toHaveLength(8);
});
