import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { type Embedder, endpointEmbedder, localEmbedder, Memory } from './index.ts';

const userId = 'ann';

function openMemory(embedder: Embedder, path = newPath()): Memory {
  const memory = new Memory({ path, embedder });
  onTestFinished(() => memory.close());
  return memory;
}

function newPath(): string {
  const folder = temporaryFolder();
  return join(folder, 'history.db');
}

/** Knows two matters, drinks and places, and says of every text how much of each it has. */
function matterEmbedder(id: string, calls: string[] = []): Embedder {
  const drinks = /tea|coffee|beverage|thirst/i;
  const places = /rome|city|travel|town/i;
  return {
    id,
    async embed(texts) {
      calls.push(...texts);
      return texts.map((text) => Float32Array.of(drinks.test(text) ? 1 : 0.1, places.test(text) ? 1 : 0.1));
    },
  };
}

const best = async (memory: Memory, question: string) =>
  (await memory.search(question, { userId, topK: 1 })).results.map(({ memory: words }) => words);

describe('vectors', () => {
  test('[memory.12] a question finds what it shares no word with', async () => {
    const memory = openMemory(matterEmbedder('m'));
    await memory.add('Green tea in the morning', { userId });
    await memory.add('Rome is lovely', { userId });
    expect(await best(memory, 'Which beverage?')).toEqual(['Green tea in the morning']);
    expect(await best(memory, 'Which town?')).toEqual(['Rome is lovely']);
    expect((await memory.search('Which town?', { userId })).vectors).toBe('used');
  });

  test('[memory.12] another model makes its own vectors and never uses those of the first', async () => {
    const path = newPath();
    const first = new Memory({ path, embedder: matterEmbedder('first') });
    await first.add('Green tea', { userId });
    await first.add('Rome by night', { userId });
    await first.close();
    const calls: string[] = [];
    const turned: Embedder = {
      id: 'second',
      async embed(texts) {
        // The same length as before but other meanings: comparing them with the first model's would give the wrong answer.
        return (await matterEmbedder('second', calls).embed(texts)).map((vector) => vector.toReversed());
      },
    };
    const second = openMemory(turned, path);
    expect(await best(second, 'Which beverage?')).toEqual(['Green tea']);
    expect(calls).toEqual(['Which beverage?', 'Green tea', 'Rome by night']);
    expect(await best(second, 'Which town?')).toEqual(['Rome by night']);
    expect(calls).toHaveLength(4); // vectors were stored: only the question is new
  });

  test('[memory.12] an embedder that is down means words alone and a flag; what it missed is made up for', async () => {
    let isDown = true;
    const calls: string[] = [];
    const works = matterEmbedder('m', calls);
    const memory = openMemory({
      id: 'm',
      embed: async (texts) => {
        if (isDown) throw new Error('out of order');
        return works.embed(texts);
      },
    });
    await memory.add('Green tea', { userId });
    const found = await memory.search('tea', { userId });
    expect(found).toMatchObject({
      vectors: 'unavailable',
      problem: 'out of order',
      results: [{ memory: 'Green tea' }],
    });
    expect(await memory.render('{memory}', { scope: { userId }, query: 'tea' })).toMatchObject({
      vectors: 'unavailable',
    });
    isDown = false;
    expect(await best(memory, 'Any beverage?')).toEqual(['Green tea']);
    expect(calls).toContain('Green tea');
  });

  test('[memory.12] adding waits for no embedder; a question and closing do', async () => {
    const path = newPath();
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const calls: string[] = [];
    const works = matterEmbedder('m', calls);
    const slow: Embedder = { id: 'm', embed: (texts) => opened.then(() => works.embed(texts)) };
    const memory = openMemory(slow, path);
    for (let n = 0; n < 40; n++) await memory.add(`Green tea ${n}`, { userId });
    expect(calls).toEqual([]);
    const asking = best(memory, 'Any beverage?');
    open();
    await asking;
    expect(calls).toHaveLength(41);
    await memory.add('Rome by night', { userId });
    await memory.close();
    expect(calls).toHaveLength(42);
    const again = openMemory(matterEmbedder('m', calls), path);
    expect(await best(again, 'Which town?')).toEqual(['Rome by night']);
    expect(calls).toHaveLength(43); // the vector was stored before the file was closed
  });

  test('[memory.12] changed words get a vector of their own', async () => {
    const memory = openMemory(matterEmbedder('m'));
    const { results } = await memory.add('Green tea', { userId });
    await memory.add('some other words', { userId });
    await memory.update(results[0]?.id ?? '', 'Rome by night');
    expect(await best(memory, 'Which town?')).toEqual(['Rome by night']);
    expect(await best(memory, 'Which beverage?')).not.toEqual(['Rome by night']);
  });

  test('[memory.12] the packaged local model finds by meaning, and the event loop turns meanwhile', async () => {
    const memory = openMemory(localEmbedder());
    let turns = 0;
    const turning = setInterval(() => turns++, 1);
    onTestFinished(() => clearInterval(turning));
    await localEmbedder().embed(Array.from({ length: 20 }, (_, n) => `The invoice number ${n} is due on Friday`));
    expect(turns).toBeGreaterThan(20);
    await memory.add('I adopted a puppy last week', { userId });
    await memory.add('The invoice is due on Friday', { userId });
    expect(await best(memory, 'Do they have a dog?')).toEqual(['I adopted a puppy last week']);
    expect(await best(memory, 'When must the bill be paid?')).toEqual(['The invoice is due on Friday']);
  });
});

type Answer = (body: { model: string; input: string[] }, response: ServerResponse, request: IncomingMessage) => void;

async function serve(answer: Answer): Promise<string> {
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += String(part);
    answer(JSON.parse(text), response, request);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

describe('an OpenAI-compatible endpoint', () => {
  test('[memory.12] is asked for embeddings in batches, in any order of its answers', async () => {
    const asked: unknown[] = [];
    const baseUrl = await serve((body, response, request) => {
      asked.push([request.method, request.url, request.headers.authorization, body.model, body.input.length]);
      const data = body.input.map((text, index) => ({ index, embedding: [text.length, 0] }));
      response.end(JSON.stringify({ data: data.toReversed() }));
    });
    const embedder = endpointEmbedder({ baseUrl, model: 'small', apiKey: 'key' });
    const texts = Array.from({ length: 70 }, (_, n) => 'x'.repeat(n + 1));
    expect(await embedder.embed(texts)).toHaveLength(70);
    expect(asked).toEqual([
      ['POST', '/v1/embeddings', 'Bearer key', 'small', 64],
      ['POST', '/v1/embeddings', 'Bearer key', 'small', 6],
    ]);
    expect(embedder.id).toContain('small');
    expect([...((await embedder.embed(['xx']))[0] ?? [])]).toEqual([2, 0]);
  });

  // Only the one that never answers needs a short time; a busy machine must not look like it.
  const broken: [string, Answer, RegExp, number?][] = [
    ['says no', (_, response) => void response.writeHead(503).end('busy'), /status 503/],
    ['answers something else', (_, response) => void response.end('{"data": []}'), /1 embeddings/],
    ['redirects', (_, response) => void response.writeHead(307, { location: '/v1/embeddings' }).end(), /status 307/],
    ['does not answer', () => undefined, /could not be reached/, 200],
  ];
  test.each(broken)('[memory.12] that %s is an error of its own, and for memory a flag', async (...args) => {
    const [, answer, message, timeoutMs = 20_000] = args;
    const embedder = endpointEmbedder({ baseUrl: await serve(answer), model: 'm', timeoutMs });
    await expect(embedder.embed(['x'])).rejects.toThrow(message);
    const memory = openMemory(embedder);
    await memory.add('tea', { userId });
    expect(await memory.search('tea', { userId })).toMatchObject({
      vectors: 'unavailable',
      results: [{ memory: 'tea' }],
    });
  });

  test('[memory.12] must have an address', () => {
    expect(() => endpointEmbedder({ baseUrl: 'ftp://x', model: 'm' })).toThrow(/http/);
    expect(() => endpointEmbedder({ baseUrl: '', model: 'm' })).toThrow(/http/);
  });
});
