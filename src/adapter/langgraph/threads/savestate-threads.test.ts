import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import type { BaseMessage } from '@langchain/core/messages';
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { Client } from '@langchain/langgraph-sdk';
import { expect, onTestFinished, test } from 'vitest';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SavestateSaver, SavestateStore, SavestateThreads } from '../index.ts';

type Fetch = (request: Request) => Response | Promise<Response>;
/** Imported by a name that the compiler does not follow: its types ask for an older TypeScript. */
const EMBED: string = '@langchain/langgraph-api/experimental/embed';
const { createEmbedServer } = (await import(EMBED)) as { createEmbedServer(options: object): { fetch: Fetch } };

const said = (content: string) => ({ messages: [{ role: 'user', content }] });

/** Answers; asks a person first if it is about money. */
function compileGraph(saver: SavestateSaver) {
  const answer = ({ messages }: { messages: BaseMessage[] }) => {
    const asked = String(messages.at(-1)?.content);
    const content = asked.includes('money') ? `You get ${String(interrupt({ question: asked }))}.` : `Heard: ${asked}`;
    return { messages: [{ role: 'assistant', content }] };
  };
  const builder = new StateGraph(MessagesAnnotation).addNode('answer', answer).addEdge(START, 'answer');
  return builder.addEdge('answer', END).compile({ checkpointer: saver });
}

/** LangGraph's own server on our threads, asked over HTTP by LangGraph's own client. */
async function open(storage: ChunkStorage, graph?: string) {
  const checkpointer = new SavestateSaver(storage);
  const store = new SavestateStore({ storage, name: 'threads' });
  const threads = new SavestateThreads(checkpointer, store, graph === undefined ? {} : { graph });
  const app = createEmbedServer({ graph: { agent: compileGraph(checkpointer) }, checkpointer, store, threads });
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
  await once(server, 'listening');
  onTestFinished(() => new Promise<void>((done) => server.close(() => done())));
  const { port } = server.address() as AddressInfo;
  const client = new Client({ apiUrl: `http://127.0.0.1:${port}`, callerOptions: { maxRetries: 0 } });
  return { client, checkpointer, threads };
}

async function run(client: Client, threadId: string, payload: object): Promise<unknown[]> {
  const parts: unknown[] = [];
  for await (const part of client.runs.stream(threadId, 'agent', { streamMode: 'values', ...payload }))
    parts.push(part);
  expect(JSON.stringify(parts)).not.toContain('"event":"error"');
  return parts;
}

const contents = (values: unknown): string[] =>
  (values as { messages: { content: string }[] }).messages.map(({ content }) => content);

describeOn(STORAGES.filter(([name]) => name !== 'file'))('%s: the official server and client', (_, create) => {
  test('a thread is made, run, asked about, forked, found, and deleted', async () => {
    const { storage, reopen } = create();
    const { client } = await open(storage);
    const { thread_id: id } = await client.threads.create({ metadata: { user: 'ann' } });
    expect(await client.threads.getState(id)).toMatchObject({ values: {}, next: [] });
    await run(client, id, { input: said('hello') });
    expect(contents((await client.threads.getState(id)).values)).toEqual(['hello', 'Heard: hello']);

    await run(client, id, { input: said('my money') });
    const waiting = await client.threads.getState(id);
    expect(waiting.tasks[0]?.interrupts[0]?.value).toEqual({ question: 'my money' });
    expect(await client.threads.search()).toMatchObject([{ thread_id: id, status: 'interrupted' }]);
    await run(client, id, { command: { resume: '39' } });
    expect(contents((await client.threads.getState(id)).values).at(-1)).toBe('You get 39.');

    const history = await client.threads.getHistory(id, { limit: 100 });
    const first = history.find(({ values, next }) => contents(values).length === 2 && next.length === 0);
    const checkpoint = first?.checkpoint ?? {};
    await run(client, id, { input: said('instead'), checkpoint });
    const forked = await client.threads.getState(id);
    expect(contents(forked.values)).toEqual(['hello', 'Heard: hello', 'instead', 'Heard: instead']);
    expect(await client.threads.getHistory(id, { limit: 100 })).toHaveLength(history.length + 3);

    const again = reopen === undefined ? { client } : await open(reopen());
    await again.client.threads.update(id, { metadata: { title: 'Tea' } });
    const other = await again.client.threads.create({ metadata: { user: 'bob' } });
    expect(await client.threads.search({ metadata: { user: 'ann' } })).toMatchObject([
      { thread_id: id, metadata: { user: 'ann', title: 'Tea', graph_id: 'agent' }, status: 'idle' },
    ]);
    const sorted = await client.threads.search({ sortBy: 'created_at', sortOrder: 'asc', limit: 1, offset: 1 });
    expect(sorted).toMatchObject([{ thread_id: other.thread_id, values: null }]);

    await client.threads.delete(id);
    await expect(again.client.threads.get(id)).rejects.toMatchObject({ status: 404 });
    expect(await client.threads.search()).toMatchObject([{ thread_id: other.thread_id }]);
  });
});

test('threads that a program saved are served under the name of their graph', async () => {
  const { client, checkpointer } = await open(new InMemoryCheckpointStorage(), 'agent');
  const [saved, long] = [randomUUID(), `named by a program ${'x'.repeat(300)}`];
  const graph = compileGraph(checkpointer);
  for (const id of [saved, long]) await graph.invoke(said('from a program'), { configurable: { thread_id: id } });
  const found = await client.threads.search({ metadata: { graph_id: 'agent' } });
  expect(found.map(({ thread_id: id }) => id).sort()).toEqual([saved, long].sort());
  expect(contents(found[0]?.values)[0]).toBe('from a program');
  await run(client, saved, { input: said('and on') });
  expect(contents((await client.threads.getState(saved)).values)).toHaveLength(4);
  expect(await client.threads.search()).toHaveLength(2);
});

test('metadata of any names comes back; a put replaces it; patches of two servers both stay', async () => {
  const storage = new InMemoryCheckpointStorage();
  const [one, two] = [await open(storage), await open(storage)];
  const id = randomUUID();
  const odd = JSON.parse('{ "__proto__": { "a": 1 }, "thread": "x", "": null, "constructor": [1] }');
  await one.threads.set(id, { kind: 'put', metadata: { old: true } });
  await one.threads.set(id, { kind: 'put', metadata: odd });
  expect(JSON.stringify((await two.threads.get(id)).metadata)).toBe(JSON.stringify(odd));
  const patch = (from: typeof one, n: number) => from.threads.set(id, { kind: 'patch', metadata: { [`k${n}`]: n } });
  await Promise.all(Array.from({ length: 10 }, (_, n) => patch(n % 2 === 0 ? one : two, n)));
  expect(Object.keys((await one.threads.get(id)).metadata)).toHaveLength(14);
});

test('bad input is refused with a sentence', async () => {
  const { client, checkpointer, threads } = await open(new InMemoryCheckpointStorage());
  const id = randomUUID();
  await expect(client.threads.get(id)).rejects.toThrow(`There is no thread "${id}".`);
  await expect(threads.set('', { kind: 'put' })).rejects.toThrow('thread_id must not be empty');
  const store = new SavestateStore(new InMemoryCheckpointStorage());
  expect(() => new SavestateThreads(checkpointer, store, { graf: 'agent' } as object)).toThrow('graph');
});
