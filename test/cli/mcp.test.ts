import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from 'mcp-v1/client/index.js';
import { StdioClientTransport as OldTransport } from 'mcp-v1/client/stdio.js';
import { expect, onTestFinished, test } from 'vitest';
import { LATER } from '../support/later.ts';
import { cleanEnv, MAIN, run } from './support/cli.ts';
import { DATABASE, sharedChat } from './support/fixture.ts';

const chat = sharedChat();
const INFO = { name: 'test', version: '1' };

const CLIENTS = {
  'of the second generation, revision 2025-11-25': () =>
    [new Client(INFO), StdioClientTransport, '2025-11-25'] as const,
  'of the second generation, revision 2026-07-28': () =>
    [
      new Client(INFO, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
      StdioClientTransport,
      '2026-07-28',
    ] as const,
  'of the first generation': () =>
    [
      new OldClient(INFO) as unknown as Client,
      OldTransport as unknown as typeof StdioClientTransport,
      undefined,
    ] as const,
};

/** Starts the command as programs do, and connects to it. */
async function connect(name: keyof typeof CLIENTS, args: readonly string[] = []) {
  const { folder } = await chat.copy();
  const [client, Transport, version] = CLIENTS[name]();
  await client.connect(
    new Transport({ command: process.execPath, args: [MAIN, 'mcp', ...args], cwd: folder, env: cleanEnv(folder) }),
  );
  onTestFinished(() => client.close());
  if (version !== undefined) expect(client.getNegotiatedProtocolVersion()).toBe(version);
  return client;
}

test.each(Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])('a client %s looks over stdio', async (name) => {
  const client = await connect(name, [DATABASE]);
  const { tools } = await client.listTools();
  expect(tools.map((tool) => tool.name)).toContain('log');
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
  const { content } = await client.callTool({ name: 'sessions', arguments: { limit: 1 } });
  const { items } = JSON.parse((content as { text: string }[])[0]?.text ?? '') as { items: { id: string }[] };
  const log = await client.callTool({ name: 'log', arguments: { session: items[0]?.id } });
  expect(log.isError ?? false).toBe(false);
  const { resources } = await client.listResources();
  expect((await client.readResource({ uri: resources[0]?.uri ?? '' })).contents).toHaveLength(1);
  expect((await client.listPrompts()).prompts).toHaveLength(2);
});

test('--allow-changes lets models fork', async () => {
  const client = await connect('of the first generation', ['--allow-changes']);
  const { resources } = await client.listResources();
  const [, checkpoint = ''] = /savestate:\/\/[^/]+\/(.+)$/.exec(resources[0]?.uri ?? '') ?? [];
  const forked = await client.callTool({ name: 'fork', arguments: { checkpoint, branch: 'by-model' } });
  expect(JSON.stringify(forked.content)).toContain('by-model');
});

test('the command ends in order when its input does, and prints nothing of its own', LATER, async () => {
  const { folder } = await chat.copy();
  expect(await run(['mcp'], { folder, input: '' })).toEqual({ code: 0, stdout: '', stderr: '' });
  expect(await run(['mcp', 'nowhere.db'], { folder, input: '' })).toMatchObject({ code: 10, stdout: '' });
  const long = await run(['mcp'], { folder, input: 'x'.repeat(11_000_000) });
  expect(long).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('The connection was ended: ') });
});
