import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { connect, openRemote } from './remote.ts';

const ABOUT = {
  version: '0.1.0',
  storage: 'sqlite',
  kind: 'sqlite',
  isReadOnly: false,
  hasMemory: false,
  hasWatch: false,
  limits: {},
  offers: [],
};

/** The address of a server that says what it is, and then replies as it likes. */
async function serve(
  reply: (response: ServerResponse) => void,
): Promise<{ kind: 'remote'; url: string; token: undefined }> {
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json');
    if (request.url === '/v1/server') response.end(JSON.stringify(ABOUT));
    else reply(response);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { kind: 'remote', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: undefined };
}

const REPLIES: [what: string, text: string, status?: number][] = [
  ['no JSON', '{"result": ['],
  ['no object', 'null'],
  ['nothing', '{}'],
  ['another shape', '{"result": [{"id": 1}]}'],
  ['a problem that is none', 'null', 500],
  ['a problem of another shape', '{"code": 7, "detail": [], "details": 3}', 500],
];

test.each(REPLIES)(
  '[cli.1] a server that replies with %s is an error with a sentence',
  async (_, text, status = 200) => {
    const storage = await openRemote(await serve((response) => response.writeHead(status).end(text)));
    for (const read of [() => storage.readRefs(), () => storage.listCheckpoints({ limit: 1 }), () => storage.stats()])
      await expect(read()).rejects.toMatchObject({
        code: 'STORAGE',
        message: expect.stringMatching(/^The server .*\.$/s),
      });
    await storage.close();
  },
);

test('[cli.1] chunks that never come are not asked for without end', async () => {
  const storage = await openRemote(await serve((response) => response.end('{"result": []}')));
  await expect(storage.readChunks(['f'.repeat(64)] as never)).rejects.toMatchObject({ code: 'STORAGE' });
  expect(await storage.readReachable(['f'.repeat(64)] as never)).toEqual([]);
  const other = { digest: 'e'.repeat(64), text: '1', refs: [] };
  const odd = await openRemote(await serve((response) => response.end(JSON.stringify({ result: [other] }))));
  expect(await odd.readReachable(['f'.repeat(64)] as never)).toEqual([other]);
});

test('[cli.1] a reply without end, or none at all, ends with an error', async () => {
  const bounds = { maxBytes: 1024, waitMs: 60_000 };
  const flood = await serve(function write(response) {
    while (!response.destroyed && response.write(' '.repeat(512)));
    if (!response.destroyed) response.once('drain', () => write(response));
  });
  const endless = connect(flood, { storage: bounds, other: bounds });
  await expect(endless.request('POST /v1/storage/read', { body: { stats: [] } })).rejects.toMatchObject({
    code: 'STORAGE',
    message: expect.stringContaining('more than 1024 bytes'),
  });
  const short = { maxBytes: 1024, waitMs: 50 };
  const silent = connect(await serve(() => undefined), { storage: short, other: short });
  await expect(silent.request('POST /v1/storage/change', { body: { collect: [] } })).rejects.toMatchObject({
    code: 'STORAGE',
    message: expect.stringContaining('did not reply in time'),
    details: { outcome: 'unknown' },
  });
});
