import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { InMemoryTransport } from '@modelcontextprotocol/server';
import { Client as OldClient } from 'mcp-v1/client/index.js';
import { StreamableHTTPClientTransport as OldHttpTransport } from 'mcp-v1/client/streamableHttp.js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { installWithout } from '../../../test/support/install-without.ts';
import { describeOn, LATER } from '../../../test/support/later.ts';
import { STORAGES, temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Memory } from '../../memory/memory.ts';
import { defineWorkflow, WorkflowExecutor } from '../../runtime/workflow/index.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { createServer } from '../server.ts';
import { createMcp, type McpOptions } from './mcp-server.ts';

const ODD = 'team a/b?c#d %2F ü';
const READING = ['sessions', 'log', 'show', 'messages', 'diff', 'grep', 'blame', 'drift', 'requests'];
const CHANGING = ['answer', 'fork', 'rewind', 'tag'];

type Content = { readonly content: readonly { readonly text?: string }[]; readonly isError?: boolean };

const CLIENTS = {
  'of the second generation': () => new Client({ name: 'test', version: '1' }),
  'of the first generation': () => new OldClient({ name: 'test', version: '1' }) as unknown as Client,
};

async function connect(
  options: McpOptions = {},
  { storage, client = CLIENTS['of the second generation']() }: { storage?: ChunkStorage; client?: Client } = {},
) {
  const manager = new CheckpointManager({ storage: storage ?? new InMemoryCheckpointStorage() });
  const server = (await createMcp(manager, options)).createServer();
  const [near, far] = InMemoryTransport.createLinkedPair();
  await server.connect(far);
  await client.connect(near);
  onTestFinished(async () => {
    await client.close();
    await manager.close();
  });
  const call = async (name: string, input: Record<string, unknown> = {}) => {
    const { content, isError = false } = (await client.callTool({ name, arguments: input })) as Content;
    const [text = '', ...notes] = content.map((each) => each.text ?? '');
    return { text, notes, isError, reply: isError ? undefined : (JSON.parse(text) as Record<string, never>) };
  };
  return { manager, client, call };
}

async function talk(manager: CheckpointManager, sessionId = ODD) {
  const session = await manager.session(sessionId);
  const state = { messages: [{ role: 'user', content: 'Hello' }], plan: { tone: 'cool' } };
  const before = await session.save(state, { note: 'first' });
  state.messages.push({ role: 'assistant', content: 'Good day' });
  state.plan.tone = 'warm';
  return { session, before, after: await session.save(state) };
}

describe.each(Object.entries(CLIENTS))('a client %s', (_, create) => {
  describeOn(STORAGES)('on a %s storage', (_kind, createStorage) => {
    test('calls every tool that looks', async () => {
      const { manager, call, client } = await connect({}, { storage: createStorage().storage, client: create() });
      const { before, after } = await talk(manager);
      expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(READING);
      expect((await call('sessions')).reply).toMatchObject({ items: [{ id: ODD, headId: after }] });
      expect((await call('log', { session: ODD })).reply).toMatchObject({
        items: [
          { id: after, parentId: before, speaker: 'assistant', text: 'Good day' },
          { id: before, note: 'first', speaker: 'user' },
        ],
      });
      expect((await call('show', { checkpoint: after, path: '$.plan' })).reply).toMatchObject({
        parts: [{ value: 'warm' }],
      });
      expect((await call('messages', { checkpoint: after, last: true, limit: 1 })).reply).toMatchObject({
        items: [{ text: 'Good day' }],
        next: '1',
      });
      expect((await call('diff', { before, after })).reply).toMatchObject({
        modified: [{ path: '$.plan.tone', oldValue: 'cool', newValue: 'warm' }],
      });
      expect((await call('grep', { text: 'Good day', session: ODD })).reply).toMatchObject({
        items: [{ checkpointId: after }],
      });
      expect((await call('blame', { checkpoint: after, path: '$.plan.tone' })).reply).toMatchObject({
        items: [{ value: 'warm', checkpoint: { id: after } }],
      });
      expect((await call('drift', { checkpoint: after })).reply).toMatchObject({ status: 'healthy' });
      expect((await call('requests')).reply).toEqual({ items: [] });
    });
  });

  test('reads resources and prompts', async () => {
    const { manager, client } = await connect({}, { client: create() });
    const { after } = await talk(manager);
    const { resources } = await client.listResources();
    const uri = resources[0]?.uri ?? '';
    expect(resources).toMatchObject([{ name: ODD, uri: expect.stringContaining(after) }]);
    const read = async (address: string) => {
      const { contents } = await client.readResource({ uri: address });
      return JSON.parse((contents[0] as { text: string }).text) as unknown;
    };
    expect(await read(uri)).toMatchObject({ checkpoint: { id: after }, state: { plan: { tone: 'warm' } } });
    expect(await read(`${uri}/messages/1/content`)).toBe('Good day');
    await expect(read(`savestate://another/${after}`)).rejects.toThrow(`but of "${ODD}"`);
    await expect(read(`${uri}/plan/none`)).rejects.toThrow('The state has no');
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(2);
    const { prompts } = await client.listPrompts();
    expect(prompts.map(({ title }) => title)).toEqual(['Find where this run went wrong', 'Explain what differs']);
    const prompt = await client.getPrompt({
      name: 'find_where_it_went_wrong',
      arguments: { session: ODD, goal: 'greet' },
    });
    expect(JSON.stringify(prompt.messages[0])).toContain(ODD);
  });
});

test('every tool says what it is like; only allowed ones change anything', async () => {
  const { client, call, manager } = await connect({ allowChanges: true });
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual([...READING, ...CHANGING]);
  const hints = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]));
  expect(hints.log).toEqual({ readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false });
  expect(hints.answer).toMatchObject({ readOnlyHint: false, destructiveHint: true, idempotentHint: false });
  expect(hints.fork).toMatchObject({ readOnlyHint: false, destructiveHint: false, idempotentHint: false });
  expect(hints.tag).toMatchObject({ readOnlyHint: false, destructiveHint: false, idempotentHint: true });
  const { session, before, after } = await talk(manager);
  const forked = await call('fork', {
    checkpoint: before,
    branch: 'other',
    set: { '$.plan.tone': 'dry' },
    reason: 'try',
  });
  expect(forked.reply).toMatchObject({ sessionId: ODD, branch: 'other' });
  await call('tag', { session: ODD, tag: 'good', checkpoint: after });
  expect((await call('rewind', { session: ODD, checkpoint: before })).isError).toBe(false);
  expect(await manager.load((await session.find('good')).id)).toMatchObject({ plan: { tone: 'warm' } });
});

test('without leave a change is neither listed nor made', async () => {
  const { call, manager } = await connect();
  const { before } = await talk(manager);
  const refused = await call('fork', { checkpoint: before }).catch((error: Error) => ({
    isError: true,
    text: error.message,
  }));
  expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('fork') });
  expect((await manager.tree(ODD)).branches).toHaveLength(1);
});

test('what is wrong with an input is said', async () => {
  const { call, manager } = await connect();
  await talk(manager);
  const ask = (name: string, input: object) =>
    call(name, { ...input }).then(
      ({ isError, text }) => (isError ? text : 'fine'),
      (error: Error) => error.message,
    );
  expect(await ask('log', { session: 'nobody' })).toContain('nobody');
  for (const cursor of ['nothing', `chk_${'0'.repeat(22)}`])
    expect(await ask('log', { session: ODD, cursor })).toContain('"next" of the page before');
  expect(await ask('log', { session: ODD, limitt: 1 })).toContain('limitt');
  expect(await ask('sessions', { limit: 1_000 })).toContain('200');
  await expect(createMcp(manager, { allowChange: true } as McpOptions)).rejects.toThrow('allowChanges');
});

test('replies are bounded: smaller pages, then parts, and where the rest is', LATER, async () => {
  const { call, manager, client } = await connect({ maxBytes: 4_000 });
  const session = await manager.session(ODD);
  for (let at = 0; at < 60; at += 1) await session.save({ at, text: 'x'.repeat(at) }, { note: `note ${at}` });
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const { text, reply, notes } = await call('log', { session: ODD, ...(cursor !== undefined && { cursor }) });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_000);
    const { items, next } = reply as unknown as { items: { note: string }[]; next?: string };
    seen.push(...items.map(({ note }) => note));
    if (next !== undefined) expect(notes.join()).toContain('fit into 4000 bytes');
    cursor = next;
  } while (cursor !== undefined);
  expect(seen).toEqual(Array.from({ length: 60 }, (_, at) => `note ${59 - at}`));

  const large = await session.save({ texts: Array.from({ length: 50 }, () => 'ü'.repeat(40_000)), end: 'here' });
  const { text, notes } = await call('blame', { checkpoint: large, path: '$.texts', whole: true });
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_000);
  const [uri = ''] = /savestate:\S+/.exec(notes.join()) ?? [];
  const { contents } = await client.readResource({ uri });
  const { parts } = JSON.parse((contents[0] as { text: string }).text) as { parts: { uri: string }[] };
  const part = await client.readResource({ uri: parts[7]?.uri ?? '' });
  expect(JSON.parse((part.contents[0] as { text: string }).text)).toBe('ü'.repeat(40_000));
});

test('searches memory where there is one, and answers requests once', async () => {
  const memory = new Memory({ path: join(temporaryFolder(), 'memory.db') });
  onTestFinished(() => memory.close());
  await memory.add('I live in Lisbon.', { userId: 'ann' });
  const { call, manager } = await connect({ memory, allowChanges: true });
  const found = await call('memory_search', { text: 'Where does she live?', user: 'ann' });
  expect(found.text).toContain('Lisbon');
  expect((await call('memory_add', { text: 'Her cat is called Olga.', user: 'ann' })).text).toContain('Olga');
  expect((await call('memory_search', { text: 'What is her cat called?', user: 'ann' })).text).toContain('Olga');
  expect(await call('memory_add', { text: '', user: 'ann' })).toMatchObject({ isError: true });
  expect(await call('memory_add', { text: 'x', who: 'ann' })).toMatchObject({ isError: true });
  const { client: reader } = await connect({ memory });
  const names = (await reader.listTools()).tools.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['memory_search']));
  expect(names).not.toContain('memory_add');
  const workflow = defineWorkflow({
    workflow: { name: 'refund' },
    steps: [{ id: 'ok', approval: { message: 'Refund?' } }],
  });
  const { status } = await new WorkflowExecutor({ manager, registry: {} }).run({ workflow, sessionId: 'refund' });
  expect(status).toBe('waiting');
  expect((await call('requests', { session: 'refund' })).reply).toMatchObject({
    items: [{ id: 'ok', message: 'Refund?' }],
  });
  const answer = { session: 'refund', request: 'ok', answer: 'approve', by: 'ann' };
  expect((await call('answer', answer)).reply).toMatchObject({ answer: 'approve', by: 'ann' });
  expect(await call('answer', answer)).toMatchObject({ isError: true, text: expect.stringContaining('ann') });
});

test.each(Object.entries(CLIENTS))('a client %s asks /mcp of a server, behind its guards', async (_, create) => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  onTestFinished(() => manager.close());
  await talk(manager);
  const server = createServer(manager, { mcp: (await createMcp(manager)).fetch });
  const { url } = await server.listen();
  onTestFinished(() => server.close());
  expect((await fetch(`${url}/mcp`, { method: 'POST' })).status).toBe(401);
  const client = create();
  const requestInit = { headers: { authorization: `Bearer ${server.token}` } };
  const Transport = client instanceof Client ? StreamableHTTPClientTransport : OldHttpTransport;
  await client.connect(new Transport(new URL(`${url}/mcp`), { requestInit }) as StreamableHTTPClientTransport);
  onTestFinished(() => client.close());
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(READING);
  const { content } = (await client.callTool({ name: 'sessions', arguments: {} })) as Content;
  expect(content[0]?.text).toContain(ODD);
});

test('without the SDK the sentence says what to install', LATER, () => {
  const folder = installWithout('@modelcontextprotocol');
  writeFileSync(
    join(folder, 'a.mjs'),
    `import { open } from 'savestate';
    import { createMcp } from 'savestate/mcp';
    await createMcp(await open('memory:')).catch(({ code, message }) => console.log(code, message));`,
  );
  expect(execFileSync(process.execPath, ['a.mjs'], { cwd: folder, encoding: 'utf8' })).toBe(
    'UNSUPPORTED MCP needs the package @modelcontextprotocol/server. Install it: npm install @modelcontextprotocol/server\n',
  );
});
