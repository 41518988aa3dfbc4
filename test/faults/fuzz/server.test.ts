import { expect, onTestFinished, test } from 'vitest';
import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import { Memory } from '../../../src/memory/memory.ts';
import type { Route } from '../../../src/server/contract/route.ts';
import { splitKey } from '../../../src/server/contract/route.ts';
import { ROUTES } from '../../../src/server/contract/routes.ts';
import { createMcp } from '../../../src/server/mcp/mcp-server.ts';
import { TOOLS } from '../../../src/server/mcp/tools.ts';
import { createServer } from '../../../src/server/server.ts';
import { InMemoryCheckpointStorage } from '../../../src/storage/memory/memory-storage.ts';
import { createRandom, type Random } from '../../../src/testing/contract/random.ts';
import { trials } from '../../support/trials.ts';
import { fuzz } from './fuzz.ts';
import { anyText, mutateJson, mutateText } from './mutate.ts';

const TOKEN = 'a-token-of-this-test-0123456789';
const HEADERS = [
  'content-type',
  'if-none-match',
  'accept',
  'last-event-id',
  'origin',
  'host',
  'cookie',
  'range',
  'idempotency-key',
  'mcp-session-id',
];

/** A storage with something of everything, and the names that lead to it. */
async function fill() {
  const random = createRandom(1); // so that a seed always asks the same
  const manager = new CheckpointManager({
    storage: new InMemoryCheckpointStorage(),
    retention: { types: {} },
    now: () => Date.UTC(2026, 0, 1),
    random: (size) => Uint8Array.from({ length: size }, () => random.below(256)),
  });
  const memory = new Memory({ manager });
  onTestFinished(() => manager.close());
  const session = await manager.session('team a/b');
  const state = { messages: [{ role: 'user', content: 'Hello' }], plan: { tone: 'cool' }, list: [1, 2, 3] };
  const ids: string[] = [await session.save(state, { userId: 'u', note: 'first' })];
  await session.step('search', () => ({ found: 'x'.repeat(3_000) }));
  state.messages.push({ role: 'assistant', content: 'Good day' });
  ids.push(await session.save(state, { type: 'pre_operation' }));
  await session.tag('v1');
  await manager.fork(ids[0] ?? '', { branch: 'side' });
  await memory.add('Ann likes tea.', { userId: 'u' });
  let exported = '';
  for await (const line of manager.exportSession('team a/b')) exported += line;
  return { manager, memory, ids, exported };
}

type Asked = {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
};

function known(ids: readonly string[]): string[] {
  return [
    ...ids,
    'team a/b',
    'main',
    'side',
    'v1',
    '@',
    '@~1',
    'Hello',
    '$.plan.tone',
    '/plan',
    '10',
    '0',
    '-1',
    'newest',
    'tagged',
    'true',
    'u',
    '2026-01-01T00:00:00Z',
    '1d',
  ];
}

const BODIES: readonly object[] = [
  { branch: 'b', patch: [{ op: 'replace', path: '/plan/tone', value: 'warm' }], author: 'me', reason: 'why' },
  { set: { '$.plan.tone': 'warm' }, switch: true },
  { state: { messages: [] }, branch: 'c' },
  { checkpoint: '@', branch: 'd' },
  { token: TOKEN },
  { text: 'Ann likes tea', userId: 'u', metadata: { a: 1 } },
  { answer: 'yes', by: 'me', note: 'n' },
  { policy: { keepLast: 1, types: { routine: { keepLast: 3 } } }, dryRun: true, sessionId: 'team a/b' },
];

function drawRequest(random: Random, ids: readonly string[], exported: string): Asked {
  const keys = Object.keys(ROUTES) as (keyof typeof ROUTES)[];
  const key = keys[random.below(keys.length)] as keyof typeof ROUTES;
  const route = ROUTES[key] as Route;
  const { method, path } = splitKey(key);
  const names = known(ids);
  const right = (name: string) =>
    name === 'checkpoint'
      ? (ids[random.below(ids.length)] ?? '')
      : name === 'session'
        ? 'team a/b'
        : anyText(random, names);
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encode(random, random.below(2) === 0 ? right(name) : anyText(random, names)),
  );
  const query = Object.keys(route.query ?? {})
    .filter(() => random.below(2) === 0)
    .map((name) => `${name}=${encode(random, random.below(2) === 0 ? right(name) : anyText(random, names))}`);
  if (random.below(10) === 0) query.push(`${anyText(random, ['limit', 'extra'])}=${anyText(random, names)}`);
  const headers: Record<string, string> = {
    authorization: `Bearer ${TOKEN}`,
    host: '127.0.0.1',
    'content-type': 'application/json',
  };
  if (random.below(8) === 0)
    headers[HEADERS[random.below(HEADERS.length)] ?? ''] = anyText(random, [
      'application/json',
      'text/plain',
      '*/*',
      '"x"',
      '1',
    ]).replace(/[^\x20-\x7e]/g, '');
  const used = random.below(20) === 0 ? random.pick(['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD']) : method;
  const body = drawBody(random, route, exported);
  return {
    method: used,
    path: `${filled}${query.length > 0 ? `?${query.join('&')}` : ''}`,
    headers,
    ...(used !== 'GET' && used !== 'HEAD' && body !== undefined && { body }),
  };
}

function drawBody(random: Random, route: Route, exported: string): string | undefined {
  if (route.takes === 'lines') return mutateText(random, exported, [exported]);
  if (route.body === undefined && random.below(4) > 0) return undefined;
  const body = BODIES[random.below(BODIES.length)];
  return random.below(4) === 0
    ? mutateText(random, JSON.stringify(body), [JSON.stringify(body)])
    : JSON.stringify(random.below(3) === 0 ? body : mutateJson(random, body));
}

/** Mostly as clients write it; now and then as they should not. */
function encode(random: Random, text: string): string {
  const written =
    random.below(10) === 0
      ? text.replace(/[^\x21-\x7e]|[#?\\]/g, '')
      : encodeURIComponent(text.toWellFormed?.() ?? text.replace(/[\uD800-\uDFFF]/g, ''));
  return written.slice(0, 4_000);
}

/** What is wrong with a reply: an error that is not described, or one that we did not expect ourselves. */
async function findFault(reply: Response): Promise<string | undefined> {
  const type = reply.headers.get('content-type') ?? '';
  // Streams of events do not end by themselves.
  if (type.startsWith('text/event-stream')) return void (await reply.body?.cancel());
  const text = await reply.text();
  if (reply.status < 400 || text === '') return undefined; // HEAD has no text
  if (!type.startsWith('application/problem+json')) return `${reply.status} ${type} ${text.slice(0, 200)}`;
  const { code, detail, status } = JSON.parse(text) as { code: string; detail: string; status: number };
  if (status !== reply.status) return `${reply.status} says ${status}`;
  return code === 'FAULT' ? `${reply.status} ${detail}` : undefined;
}

test('every route replies, or refuses with a problem that says why', async () => {
  const errors: unknown[] = [];
  const { manager, memory, ids, exported } = await fill();
  const server = createServer(manager, { token: TOKEN, memory, onError: (error) => errors.push(error) });
  onTestFinished(() => server.close());
  let taken = 0;
  await fuzz('http', {
    trials: trials(20_000),
    draw: (random) => drawRequest(random, ids, exported),
    run: async ({ path, ...asked }) => {
      const request = new Request(new URL(path, 'http://127.0.0.1'), { ...asked, duplex: 'half' } as RequestInit);
      const reply = await server.fetch(request);
      if (reply.ok) taken++;
      const fault = await findFault(reply);
      const [error] = errors.splice(0);
      return fault === undefined ? undefined : `${fault} ${error instanceof Error ? error.stack : ''}`;
    },
  });
  expect(taken).toBeGreaterThan(0);
  expect((await manager.verify()).findings).toEqual([]);
});

const INPUTS: readonly object[] = [
  { session: 'team a/b', limit: 10 },
  { session: 'team a/b', checkpoint: '@', path: '$.plan' },
  { checkpoint: '@', branch: 'x', patch: [] },
  { before: '@~1', after: '@', text: 'Hello', query: 'Hello', tag: 'v2' },
];

test('every tool of MCP replies, or says what was wrong', async () => {
  const { manager, memory, ids } = await fill();
  const mcp = await createMcp(manager, { allowChanges: true, memory });
  const names = known(ids);
  const ask = (body: string) =>
    mcp.fetch(
      new Request('http://127.0.0.1/mcp', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      }),
    );
  const message = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 1, method, params });
  await fuzz('mcp', {
    trials: trials(5_000),
    draw: (random) => {
      const input = JSON.parse(JSON.stringify(INPUTS[random.below(INPUTS.length)]), (key, value: unknown) =>
        key === 'checkpoint' || key === 'before' || key === 'after' ? (ids[random.below(ids.length)] ?? value) : value,
      ) as object;
      const tool = TOOLS[random.below(TOOLS.length)]?.name;
      const call = message('tools/call', {
        name: tool,
        arguments: random.below(2) === 0 ? input : mutateJson(random, input),
      });
      const uri = `savestate://${encode(random, anyText(random, names))}/${encode(random, anyText(random, names))}`;
      const asked = random.below(4) === 0 ? message('resources/read', { uri }) : call;
      return random.below(5) === 0
        ? mutateText(random, JSON.stringify(asked), [JSON.stringify(call)])
        : JSON.stringify(asked);
    },
    run: async (body) => {
      const reply = await ask(body);
      const text = await reply.text();
      if (reply.status >= 500) return `${reply.status} ${text.slice(0, 300)}`;
      return /The server failed|FAULT|node_modules|\.ts:\d+/.test(text) ? text.slice(0, 500) : undefined;
    },
  });
  expect((await manager.verify()).findings).toEqual([]);
});
