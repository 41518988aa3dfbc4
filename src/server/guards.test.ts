import { mkdirSync, writeFileSync } from 'node:fs';
import { request as send } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { temporaryFolder } from '../../test/support/storages.ts';
import { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { createServer } from './server.ts';

type Sent = {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: string;
};

/** Sends just these headers, Host too, as an attacker's browser would. */
function attack(
  { url }: Pick<TestServer, 'url'>,
  {
    path = '/v1/sessions',
    method = 'GET',
    headers = {},
    body,
  }: { path?: string; method?: string; headers?: Record<string, string>; body?: string },
): Promise<Sent> {
  return new Promise((resolve, reject) => {
    const sent = send(new URL(path, url), { method, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const JSON_TYPE = { 'content-type': 'application/json' };

describe('guards, attacked over HTTP', () => {
  test('[secret.1] what is refused repeats neither the token nor a secret', async () => {
    const started = await startServer();
    const secret = `sk_live_${'a1B2c3D4'.repeat(3)}`;
    const headers = { authorization: `Bearer ${started.token}`, 'content-type': 'application/json' };
    const sent = await Promise.all([
      attack(started, { path: `/v1/${secret}`, headers }),
      attack(started, { path: `/v1/sessions?${secret}=1`, headers }),
      attack(started, { path: `/v1/nothing/${started.token}`, headers }),
      attack(started, { path: '/v1/access', method: 'POST', headers, body: JSON.stringify({ [secret]: 1 }) }),
      attack(started, { path: '/v1/access', method: 'POST', headers, body: JSON.stringify({ token: [secret] }) }),
    ]);
    expect(sent.map(({ status }) => status)).toEqual([404, 400, 404, 400, 400]);
    for (const { body } of sent) expect(body).not.toMatch(new RegExp(`${secret}|${started.token}`));
  });

  test('[1] it listens on this machine only; elsewhere it needs a token, and warns that nothing is encrypted', async () => {
    const { server, url, manager } = await startServer();
    expect(new URL(url).hostname).toBe('127.0.0.1');
    const wide = createServer(manager);
    const { warnings } = await wide.listen({ host: '0.0.0.0' });
    expect(warnings.join()).toContain('not encrypted');
    await Promise.all([wide.close(), server.close(), server.close()]);
    const open = createServer(new CheckpointManager({ storage: new InMemoryCheckpointStorage() }), { token: false });
    await expect(open.listen({ host: '0.0.0.0' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test.each(['evil.example', 'localhost.evil.example', '192.0.2.7', 'evil.example:80', '127.0.0.1.nip.io'])(
    '[2] a name that leads here (%s) gets nothing, not even the page',
    async (host) => {
      const started = await startServer();
      const headers = { host, authorization: `Bearer ${started.token}` };
      for (const path of ['/v1/sessions', '/', '/openapi.json']) {
        const { status, body } = await attack(started, { path, headers });
        expect(status).toBe(421);
        expect(body).not.toContain('items');
      }
    },
  );

  test('[2] names of this machine, and those that were allowed, are answered', async () => {
    const started = await startServer({ hosts: ['Agents.Example'] });
    for (const host of ['localhost', '127.0.0.1:9', '[::1]:80', 'agents.example', 'AGENTS.example:443'])
      expect((await attack(started, { headers: { host, authorization: `Bearer ${started.token}` } })).status).toBe(200);
  });

  test.each(['', ' ', 'agents.example:8080', 'https://agents.example'])(
    '[2] the name %j, under which nobody could come, is refused',
    async (host) => {
      await expect(startServer({ hosts: [host] })).rejects.toThrow('must be a host name without scheme and port');
    },
  );

  test('[3] nothing is answered without the token, or with one that is nearly right', async () => {
    const started = await startServer();
    const { token } = started;
    const wrong = ['', 'Bearer', `Bearer ${token.slice(1)}`, `Bearer ${token}x`, `Basic ${token}`, token];
    for (const authorization of wrong)
      for (const path of ['/v1/sessions', '/v1/events', '/openapi.json', '/v1/nothing'])
        expect((await attack(started, { path, headers: authorization === '' ? {} : { authorization } })).status).toBe(
          401,
        );
    expect((await attack(started, { headers: { authorization: `bearer ${token}` } })).status).toBe(200);
  });

  test('[3] the token is swapped for a cookie that scripts and other sites cannot use, and that is not the token', async () => {
    const started = await startServer();
    const swap = (given: string) =>
      attack(started, {
        path: '/v1/access',
        method: 'POST',
        headers: JSON_TYPE,
        body: JSON.stringify({ token: given }),
      });
    expect((await swap('guess')).status).toBe(401);
    const { headers } = await swap(started.token);
    const cookie = String(headers['set-cookie']);
    expect(cookie).toMatch(/^savestate_[0-9a-f]{8}=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(cookie).not.toContain(started.token);
    const [pair = ''] = cookie.split(';');
    expect((await attack(started, { headers: { cookie: `a=b; ${pair}` } })).status).toBe(200);
    expect((await attack(started, { headers: { cookie: `${pair}0` } })).status).toBe(401);
    const asBearer = { authorization: `Bearer ${pair.split('=')[1]}` };
    expect((await attack(started, { headers: asBearer })).status).toBe(401);
    const other = await startServer();
    expect((await attack(other, { headers: { cookie: pair } })).status).toBe(401);
  });

  test('[4] pages of other sites may neither read nor change, though the browser sends the cookie along', async () => {
    const started = await startServer();
    const host = new URL(started.url).host;
    const known = { authorization: `Bearer ${started.token}` };
    const foreign = [
      { origin: 'http://evil.example' },
      { origin: 'null' },
      { origin: `https://${host}.evil.example` },
      { origin: 'http://127.0.0.1:1' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of foreign)
      for (const [method, path] of [
        ['GET', '/v1/sessions'],
        ['GET', '/v1/events'],
        ['POST', '/v1/verify'],
        ['OPTIONS', '/v1/sessions'],
      ] as const) {
        const sent = await attack(started, { method, path, headers: { ...known, ...headers } });
        expect([sent.status, sent.headers['access-control-allow-origin']]).toEqual([403, undefined]);
      }
    const own = { ...known, origin: started.url, 'sec-fetch-site': 'same-origin' };
    expect((await attack(started, { headers: own })).status).toBe(200);
    const form = { ...known, 'content-type': 'text/plain' };
    expect((await attack(started, { path: '/v1/verify', method: 'POST', headers: form, body: '{}' })).status).toBe(400);
  });

  test('[4] CORS is spoken only to origins that were named, and only with the token', async () => {
    const started = await startServer({ origins: ['https://desk.example'] });
    const origin = 'https://desk.example';
    const asked = await attack(started, { headers: { origin, authorization: `Bearer ${started.token}` } });
    expect([asked.status, asked.headers['access-control-allow-origin']]).toEqual([200, origin]);
    expect(asked.headers['access-control-allow-credentials']).toBeUndefined();
    const preflight = await attack(started, { method: 'OPTIONS', headers: { origin } });
    expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([204, origin]);
    expect((await attack(started, { headers: { origin } })).status).toBe(401);
  });

  test('[5] the page has a strict policy with a new nonce each time; replies can be neither framed nor guessed at', async () => {
    const studio = temporaryFolder();
    mkdirSync(join(studio, 'assets'));
    writeFileSync(
      join(studio, 'index.html'),
      '<meta property="csp-nonce" nonce="__CSP_NONCE__"><script src="/assets/app-a1b2c3d4.js">',
    );
    writeFileSync(join(studio, 'assets/app-a1b2c3d4.js'), 'hello()');
    writeFileSync(join(studio, '..', 'secret.js'), 'outside');
    const started = await startServer({ studio });
    const pages = await Promise.all(['/', '/s/a%2Fb?at=chk_1'].map((path) => attack(started, { path })));
    const nonces = pages.map(({ headers, body }) => {
      const policy = String(headers['content-security-policy']);
      expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self' 'nonce-[^']+'; /);
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*/);
      const [, nonce = ''] = /'nonce-([^']+)'/.exec(policy) ?? [];
      expect(body).toContain(`nonce="${nonce}"`);
      return nonce;
    });
    expect(new Set(nonces).size).toBe(2);
    expect((await attack(started, { path: '/s/report.json' })).body).toContain('nonce="');
    const asset = await attack(started, { path: '/assets/app-a1b2c3d4.js' });
    expect([asset.body, asset.headers['cache-control']]).toEqual(['hello()', 'public, max-age=31536000, immutable']);
    for (const path of [
      '/../secret.js',
      '/%2e%2e/secret.js',
      '/assets/%2e%2e%2f%2e%2e%2fsecret.js',
      '/assets/..%5c..%5csecret.js',
      '/%ff.js',
    ])
      expect((await attack(started, { path })).body).not.toContain('outside');
    const reply = await attack(started, { headers: { authorization: `Bearer ${started.token}` } });
    expect(reply.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    });
  });
});

describe('limits and errors', () => {
  test('a read-only server changes nothing, whatever is asked', async () => {
    const { manager, ask } = await startServer({ readOnly: true });
    const id = await (await manager.session('a')).save({ n: 1 });
    const tries: [string, string, string?][] = [
      ['POST', `/v1/checkpoints/${id}/fork`, '{}'],
      ['PUT', `/v1/checkpoints/${id}/pin`],
      ['PUT', '/v1/sessions/a/tags/v1', JSON.stringify({ checkpoint: id })],
      ['POST', '/v1/prune', '{"expect":0}'],
      ['POST', '/v1/import', '{}'],
      ['DELETE', '/v1/sessions/a'],
    ];
    for (const [method, path, body] of tries) {
      const response = await ask(path, { method, headers: JSON_TYPE, ...(body !== undefined && { body }) });
      expect([response.status, (await response.json()) as object]).toEqual([
        403,
        expect.objectContaining({ code: 'READ_ONLY' }),
      ]);
    }
    expect((await ask('/v1/verify', { method: 'POST', headers: JSON_TYPE, body: '{}' })).status).toBe(200);
  });

  test('errors are problem+json with our codes, say what was asked, and tell nothing of the inside', async () => {
    const { ask } = await startServer();
    const problem = async (path: string, init?: Parameters<typeof ask>[1]) => {
      const response = await ask(path, init);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      return (await response.json()) as { status: number; code: string; detail: string };
    };
    expect(await problem('/v1/sessions/nobody')).toMatchObject({
      status: 404,
      code: 'NOT_FOUND',
      detail: expect.stringContaining('nobody'),
    });
    expect(await problem('/v1/sessions?limt=3')).toMatchObject({
      status: 400,
      detail: expect.stringContaining('"limit"'),
    });
    expect(await problem('/v1/sessions?limit=-3')).toMatchObject({ status: 400, code: 'INVALID_INPUT' });
    for (const path of ['/v1/sessions?', '/v1/runs?', '/v1/sessions/x/effects?', '/v1/sessions/x/compare?a=x&b=x&'])
      expect([path, await problem(`${path}cursor=-1`)]).toMatchObject([
        path,
        { status: 400, detail: expect.stringContaining('"next" of the page before') },
      ]);
    expect(await problem('/v1/sessions/%00')).toMatchObject({ status: 400 });
    expect(await problem('/v1/nothing')).toMatchObject({ status: 404 });
    expect(await problem('/v1/memory?text=x')).toMatchObject({ status: 501, code: 'UNSUPPORTED' });
    const post = (body: string) => problem('/v1/verify', { method: 'POST', headers: JSON_TYPE, body });
    expect(await post('{')).toMatchObject({ status: 400, detail: expect.stringContaining('not JSON') });
    const deep = `{"readData":${'['.repeat(40_000)}"\\"]"${']'.repeat(40_000)}}`;
    expect(await post(deep)).toMatchObject({ status: 400, detail: expect.stringContaining('nested deeper') });
    expect(await post('{"readDta":true}')).toMatchObject({ status: 400, detail: expect.stringContaining('readDta') });
    expect(await post('{"readData":1e999}')).toMatchObject({
      status: 400,
      detail: expect.stringMatching(/at readData .*\(found Infinity\)/),
    });
  });

  test('a key that a body has twice in one object is refused, also escaped: only one value would be read', async () => {
    const { ask } = await startServer();
    const post = async (body: string) => {
      const response = await ask('/v1/verify', { method: 'POST', headers: JSON_TYPE, body });
      const { detail } = (await response.json()) as { detail?: string };
      return `${response.status} ${detail}`;
    };
    const refusal = '400 The body has the key "readData" twice in one object. Give it once.';
    expect(await post('{"readData":true,"readData":false}')).toBe(refusal);
    expect(await post('{"readData" : true, "x": [{}], "read\\u0044ata": false}')).toBe(refusal);
    expect(await post('{"x":{"a":[{"b":1}],"a":":,\\""}}')).toContain('the key "a" twice');
    expect(await post('{"a":{"b":":"},"c":{"b":1},"d":[{"b":1},{"b":"d"}]}')).toMatch(/^400 .*"a"/);
    expect(await post('{"a\\q":1}')).toContain('not JSON');
    expect(await post('{"readData":false}')).toMatch(/^200/);
  });

  test('what a request does not take is refused, and nothing is done: a body, a parameter given twice, a version of no session', async () => {
    const { ask, manager } = await startServer();
    await (await manager.session('kept')).save({ messages: [] });
    const refused = async (path: string, init?: Parameters<typeof ask>[1]) => {
      const { status, detail } = (await (await ask(path, init)).json()) as { status: number; detail: string };
      return `${status} ${detail}`;
    };
    expect(
      await refused('/v1/sessions/kept', { method: 'DELETE', headers: JSON_TYPE, body: '{"dryRun":true}' }),
    ).toMatch(/^400 .*takes no body/);
    expect(await manager.list({ sessionId: 'kept' })).toMatchObject({ checkpoints: [{ sessionId: 'kept' }] });
    expect(await refused('/v1/sessions?limit=1&limit=2')).toMatch(/^400 .*"limit".* more than once/);
    const headers = { ...JSON_TYPE, 'if-match': '"x"' };
    const body = '{"policy":{"keepLast":1},"expect":0}';
    expect(await refused('/v1/prune', { method: 'POST', headers, body })).toMatch(/^400 .*If-Match/);
  });

  test('a body that is too large, with or without its length, is refused; one that is not needed is not read', async () => {
    const { ask } = await startServer({ maxBodyBytes: 1_000 });
    const body = JSON.stringify({ readData: true, more: 'x'.repeat(5_000) });
    const whole = await ask('/v1/verify', { method: 'POST', headers: JSON_TYPE, body });
    expect(whole.status).toBe(413);
    const stream = new Blob([body]).stream();
    const streamed = await ask('/v1/verify', {
      method: 'POST',
      headers: JSON_TYPE,
      body: stream,
      duplex: 'half',
    } as RequestInit & { headers: Record<string, string> });
    expect(streamed.status).toBe(413);
  });

  test('who is still sending a body that is too large gets to read the reply, and the connection goes on', async () => {
    const { ask, url, token } = await startServer({ maxBodyBytes: 1_000 });
    const { hostname, port, host } = new URL(url);
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    let received = '';
    socket.setEncoding('utf8').on('data', (text) => {
      received += text;
    });
    const head = (method: string, more = '') =>
      `${method} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n${more}\r\n`;
    socket.write(head('POST /v1/verify', 'content-type: application/json\r\ncontent-length: 5000\r\n'));
    socket.write('x'.repeat(2_500));
    for (let asked = 0; asked < 20; asked++) await (await ask('/v1/sessions')).arrayBuffer();
    expect(received).toBe('');
    socket.write(`${'x'.repeat(2_500)}${head('GET /v1/sessions')}`);
    await expect
      .poll(() => received.match(/HTTP\/1.1 \d+/g), { timeout: 30_000 })
      .toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
  });

  test('an edit of very many values is refused before they are made', async () => {
    const { manager, ask } = await startServer();
    const id = await (await manager.session('a')).save({ n: 1 });
    const body = `{"state":{"text":",,\\",,","list":[${'0,'.repeat(100_001)}0]}}`;
    for (const path of ['fork', 'fork/preview']) {
      const reply = await ask(`/v1/checkpoints/${id}/${path}`, { method: 'POST', headers: JSON_TYPE, body });
      expect([reply.status, await reply.json()]).toMatchObject([
        400,
        { detail: expect.stringContaining('100000 values') },
      ]);
    }
  });

  test('what takes too long ends with 504', async () => {
    const storage = new InMemoryCheckpointStorage();
    const started = await startServer({ storage, timeoutMs: 30 });
    const id = await (await started.manager.session('a')).save({ n: 1 });
    storage.readCheckpoint = () => new Promise(() => undefined);
    expect((await started.ask(`/v1/checkpoints/${id}`)).status).toBe(504);
  });

  /** A request whose body begins, and does not end. */
  const unfinished = (type: string) => {
    const body = new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode('{"')) });
    return { method: 'POST', headers: { 'content-type': type }, body, duplex: 'half' } as object;
  };

  test.each([
    ['/v1/access', 'application/json'],
    ['/v1/verify', 'application/json'],
    ['/v1/import', 'application/x-ndjson'],
  ])('a body that does not come ends with 504: %s', async (path, type) => {
    const { ask } = await startServer({ timeoutMs: 30 });
    const slow = await ask(path, unfinished(type));
    expect(slow.status).toBe(504);
  });

  test('an import that does not come holds no other change up', async () => {
    const { manager, ask } = await startServer();
    const checkpoint = await (await manager.session('a')).save({ n: 1 });
    const slow = new AbortController();
    const importing = ask('/v1/import', { ...unfinished('application/x-ndjson'), signal: slow.signal });
    const body = JSON.stringify({ checkpoint });
    const tagged = await ask('/v1/sessions/a/tags/one', { method: 'PUT', headers: JSON_TYPE, body });
    expect(tagged.status).toBe(200);
    slow.abort();
    await expect(importing).rejects.toThrow();
  });

  test('a change that waited too long for the one before is not made', async () => {
    const storage = new InMemoryCheckpointStorage();
    const { manager, ask } = await startServer({ storage, timeoutMs: 200 });
    const checkpoint = await (await manager.session('a')).save({ n: 1 });
    let release = (): void => undefined;
    const commit = storage.commit.bind(storage);
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    storage.commit = async (given) => {
      await held;
      return commit(given);
    };
    const tag = (name: string) =>
      ask(`/v1/sessions/a/tags/${name}`, { method: 'PUT', headers: JSON_TYPE, body: JSON.stringify({ checkpoint }) });
    expect([(await tag('one')).status, (await tag('two')).status]).toEqual([504, 504]);
    release();
    const last = await ask('/v1/storage/change', { method: 'POST', headers: JSON_TYPE, body: '{"collect":[]}' });
    expect(last.status).toBe(200);
    expect(await manager.tags('a')).toEqual([{ name: 'one', checkpointId: checkpoint }]);
  });

  test('what cannot change is kept by clients; what can is asked for again, and not sent twice', async () => {
    const { manager, ask } = await startServer();
    const id = await (await manager.session('a')).save({ n: 1 });
    const state = await ask(`/v1/checkpoints/${id}/state`);
    expect(state.headers.get('cache-control')).toMatch(/immutable/);
    const prefix = await ask(`/v1/checkpoints/${id.slice(0, -2)}/state`);
    expect(prefix.headers.get('cache-control')).not.toMatch(/immutable/);
    const sessions = await ask('/v1/sessions');
    const etag = sessions.headers.get('etag') ?? '';
    const again = await ask('/v1/sessions', { headers: { 'if-none-match': `"older", ${etag}` } });
    expect([again.status, await again.text()]).toEqual([304, '']);
    await (await manager.session('b')).save({ n: 2 });
    expect((await ask('/v1/sessions', { headers: { 'if-none-match': etag } })).status).toBe(200);
  });
});
