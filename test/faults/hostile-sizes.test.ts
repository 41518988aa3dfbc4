import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { reportFaults } from '../support/fault-report.ts';
import { startServer } from '../support/server.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const DEPTH = 200_000;
const KEYS = 50_000;
const BOMB_BYTES = 100 * 1024 ** 2;

/** What the server may keep of it all, once nobody asks any more. */
const MAX_HEAP_GROWTH = 200 * 1024 ** 2;

const deep = (open: string, close: string) => `${open.repeat(DEPTH)}1${close.repeat(DEPTH)}`;

test('bodies that are too deep, too wide or too large once unpacked are refused, and the server goes on', async () => {
  const { manager, server, url, token } = await startServer();
  const ask = (path: string, { headers, ...init }: RequestInit & { headers?: Record<string, string> } = {}) => {
    const sent = { authorization: `Bearer ${token}`, host: new URL(url).host, ...headers };
    return server.fetch(new Request(`${url}${path}`, { ...init, headers: sent }));
  };
  const id = await (await manager.session('s')).save({ a: 1 });
  const wide = `{${Array.from({ length: KEYS }, (_, n) => `"${n}":0`).join(',')}}`;
  const values = [
    deep('[', ']'),
    deep('{"a":', '}'),
    wide,
    `[${'0,'.repeat(200_000)}0]`,
    `"${'x'.repeat(20_000_000)}"`,
    `{"$":${deep('["tree",', ']')}}`,
    deep('[{"a":', '}]'),
    `[${'[],'.repeat(200_000)}0]`,
    `[${'{},'.repeat(200_000)}0]`,
    `"${'\\u0000'.repeat(2_000_000)}"`,
    `{"${'k'.repeat(5_000_000)}":1}`,
    `-${'9'.repeat(1_000_000)}`,
    `1e${'9'.repeat(1_000_000)}`,
  ];
  const bodies = values.flatMap((value) => [
    `{"state":${value}}`,
    `{"set":{"$.a":${value}}}`,
    `{"patch":[{"op":"add","path":"/b","value":${value}}]}`,
    value,
  ]);
  const path = `/v1/checkpoints/${id}/fork/preview`;
  const failures: string[] = [];
  const before = process.memoryUsage().heapUsed;
  const trials = bodies.length + 1;
  for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) {
    const reply = await ask(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    const text = await reply.text();
    if (reply.status >= 500)
      failures.push(`${reply.status} for ${body.length} characters of ${body.slice(0, 60)}: ${text.slice(0, 300)}`);
  }
  const bomb = gzipSync(Buffer.alloc(BOMB_BYTES, ' '));
  const reply = await ask(path, {
    method: 'POST',
    body: bomb,
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  });
  if (reply.status < 400 || reply.status >= 500)
    failures.push(`${reply.status} for ${bomb.length} bytes that unpack to ${BOMB_BYTES}`);
  expect((await ask('/v1/sessions')).status).toBe(200);
  collectGarbage();
  const grown = process.memoryUsage().heapUsed - before;
  reportFaults('hostile sizes over http', {
    trials,
    failures,
    notes: `grown=${Math.round(grown / 1024 ** 2)}MiB`,
  });
  expect(failures).toEqual([]);
  expect(grown).toBeLessThan(MAX_HEAP_GROWTH);
});
