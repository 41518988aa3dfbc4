import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Client } from 'pg';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from './postgres.ts';
import { proxyTargetOf, TcpProxy } from './tcp-proxy.ts';

/** A client that keeps what it heard, and how it ended. */
class TestClient {
  readonly socket: Socket;
  readonly closed: Promise<string>;
  heard = '';
  #wake: () => void = () => undefined;

  constructor(port: number) {
    let ending = 'never';
    this.socket = connect({ host: '127.0.0.1', port, noDelay: true });
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      ending = error.code ?? error.message;
    });
    this.socket.on('end', () => {
      ending = 'end';
    });
    this.socket.on('data', (bytes: Buffer) => {
      this.heard += bytes.toString();
      this.#wake();
    });
    this.closed = new Promise((resolve) => this.socket.on('close', () => resolve(ending)));
    onTestFinished(() => this.socket.destroy() && undefined);
  }

  say(text: string): void {
    this.socket.write(text);
  }

  async hears(text: string): Promise<void> {
    while (this.heard !== text) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Echoes what it gets in capital letters, and keeps it. */
class EchoServer {
  readonly listener: Server;
  heard = '';
  readonly endings: string[] = [];

  private constructor(mark: string) {
    this.listener = createServer((socket) => {
      socket.on('data', (bytes: Buffer) => {
        this.heard += bytes.toString();
        socket.write(mark + bytes.toString().toUpperCase());
      });
      socket.on('end', () => this.endings.push('end'));
      socket.on('error', (error: NodeJS.ErrnoException) => this.endings.push(error.code ?? error.message));
    });
  }

  static async listen(mark = ''): Promise<EchoServer> {
    const server = new EchoServer(mark);
    server.listener.listen(0, '127.0.0.1');
    await once(server.listener, 'listening');
    onTestFinished(() => server.listener.close() && undefined);
    return server;
  }

  get target(): { host: string; port: number } {
    return { host: '127.0.0.1', port: (this.listener.address() as AddressInfo).port };
  }
}

/** Every test ends by its own means; nothing here waits for time to pass but the tests of delay and stall. */
const SHORT_MS = 60;
const passes = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function listen(target: { host: string; port: number }): Promise<TcpProxy> {
  const proxy = await TcpProxy.listen({ target });
  onTestFinished(() => proxy.close());
  return proxy;
}

describe('a proxy before an echo', () => {
  let server: EchoServer;
  let proxy: TcpProxy;

  beforeEach(async () => {
    server = await EchoServer.listen();
    proxy = await TcpProxy.listen({ target: server.target });
    return () => proxy.close();
  });

  async function connected(): Promise<TestClient> {
    const client = new TestClient(proxy.port);
    client.say('hi');
    await client.hears('HI');
    client.heard = '';
    return client;
  }

  test('passes bytes and ends, and counts them', async () => {
    const client = await connected();
    const counted = await proxy.countDuring(async () => {
      client.say('one');
      await client.hears('ONE');
      client.say('four');
      await client.hears('ONEFOUR');
    });
    expect(counted).toEqual({
      connections: 0,
      openConnections: 1,
      requestBytes: 7,
      replyBytes: 7,
      droppedReplyBytes: 0,
      roundTrips: 2,
    });
    client.socket.end();
    expect(await client.closed).toBe('end');
    await proxy.until(({ openConnections }) => openConnections === 0);
    expect(server.endings).toEqual(['end']);
    expect(proxy.counters).toMatchObject({ connections: 1, requestBytes: 9, roundTrips: 3 });
  });

  test('passes more than fits into any buffer', async () => {
    const client = await connected();
    const text = 'x'.repeat(20_000_000);
    client.say(text);
    await client.hears(text.toUpperCase());
    expect(proxy.counters.requestBytes).toBe(text.length + 2);
  });

  test('passes a reset of the client on', async () => {
    const client = await connected();
    client.socket.resetAndDestroy();
    await proxy.until(({ openConnections }) => openConnections === 0);
    await expect.poll(() => server.endings).toEqual(['ECONNRESET']);
  });

  test.each([
    ['reset', 'ECONNRESET'],
    ['end', 'end'],
  ] as const)('cuts by %s', async (kind, ending) => {
    const clients = [await connected(), await connected()];
    proxy.cut(kind);
    expect(await Promise.all(clients.map(({ closed }) => closed))).toEqual([ending, ending]);
    await proxy.settled();
    expect(server.endings).toEqual(['end', 'end']);
    await connected();
  });

  test('refuses new connections, and keeps old ones', async () => {
    const old = await connected();
    proxy.refuse(true);
    expect(await new TestClient(proxy.port).closed).toBe('ECONNRESET');
    old.say('still');
    await old.hears('STILL');
    proxy.refuse(false);
    await connected();
  });

  test('resets a client whose server is not there', async () => {
    server.listener.close();
    expect(await new TestClient(proxy.port).closed).toBe('ECONNRESET');
  });

  test('stalls both ways, also for new connections, and goes on', async () => {
    const old = await connected();
    proxy.stall();
    const fresh = new TestClient(proxy.port);
    old.say('old');
    fresh.say('new');
    await passes(SHORT_MS);
    expect([server.heard, old.heard, fresh.heard]).toEqual(['hi', '', '']);
    proxy.resume();
    await old.hears('OLD');
    await fresh.hears('NEW');
  });

  test('does not tell the server that a client ended in a stall', async () => {
    const client = await connected();
    proxy.stall();
    client.socket.destroy();
    await passes(SHORT_MS);
    expect(server.endings).toEqual([]);
    proxy.resume();
    await expect.poll(() => server.endings).toEqual(['end']);
  });

  test('cuts in a stall: what has not gone yet never goes', async () => {
    const client = await connected();
    proxy.stall();
    client.say('lost');
    proxy.cut();
    expect(await client.closed).toBe('ECONNRESET');
    await proxy.settled();
    expect(server.heard).toBe('hi');
  });

  test('drops replies while requests go on', async () => {
    const client = await connected();
    proxy.dropReplies();
    client.say('unheard');
    await proxy.until(({ droppedReplyBytes }) => droppedReplyBytes === 7);
    client.say('too');
    await proxy.until(({ droppedReplyBytes }) => droppedReplyBytes === 10);
    expect([server.heard, client.heard]).toEqual(['hiunheardtoo', '']);
    await connected();
    proxy.cut();
    expect(await client.closed).toBe('ECONNRESET');
  });

  test.each([0, 1, 5, 6])('cuts after exactly %i bytes', async (count) => {
    const client = await connected();
    proxy.cutAfterRequestBytes(count);
    client.say('abcdef');
    expect(await client.closed).toBe('ECONNRESET');
    await proxy.settled();
    expect(server.heard).toBe(`hi${'abcdef'.slice(0, count)}`);
    expect(proxy.counters.requestBytes).toBe(2 + count);
    await connected();
  });

  test('counts bytes until a cut over several requests', async () => {
    const client = await connected();
    proxy.cutAfterRequestBytes(5);
    client.say('abc');
    await client.hears('ABC');
    client.say('def');
    expect(await client.closed).toBe('ECONNRESET');
    await proxy.settled();
    expect([server.heard, client.heard]).toEqual(['hiabcde', 'ABC']);
  });

  test.each([0, 2])('cuts instead of a reply, %i let through before', async (skip) => {
    const client = await connected();
    proxy.cutOnNextReply({ skip });
    for (let i = 0; i < skip; i++) {
      client.say('x');
      await client.hears('X'.repeat(i + 1));
    }
    client.say('last');
    expect(await client.closed).toBe('ECONNRESET');
    await proxy.settled();
    expect([server.heard, client.heard]).toEqual([`hi${'x'.repeat(skip)}last`, 'X'.repeat(skip)]);
    expect(proxy.counters).toMatchObject({ droppedReplyBytes: 4, roundTrips: skip + 2 });
    await connected();
  });

  test('does not cut when it is disarmed', async () => {
    proxy.cutOnNextReply();
    proxy.cutAfterRequestBytes(1);
    proxy.disarm();
    await connected();
  });

  test('delays each direction, and keeps the order when the delay ends', async () => {
    const client = await connected();
    proxy.delay(SHORT_MS);
    const startMs = performance.now();
    client.say('a');
    await client.hears('A');
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(2 * SHORT_MS - 1);
    client.say('b');
    await passes(5);
    proxy.delay(0);
    client.say('c');
    await client.hears('ABC');
  });

  test('sends new connections elsewhere', async () => {
    const old = await connected();
    const other = await EchoServer.listen('other ');
    proxy.retarget(other.target);
    const fresh = new TestClient(proxy.port);
    fresh.say('new');
    await fresh.hears('other NEW');
    old.say('old');
    await old.hears('OLD');
  });
});

describe('a proxy before PostgreSQL', () => {
  async function setUp() {
    const proxy = await listen(proxyTargetOf(postgresUrl()));
    const schema = freshSchema();
    const admin = await adminClient();
    await admin.query(`create schema ${schema}; create table ${schema}.numbers (number int primary key)`);
    const client = new Client({ connectionString: proxy.urlFor(postgresUrl()) });
    client.on('error', () => undefined);
    await client.connect();
    onTestFinished(() => client.end().catch(() => undefined));
    const numbers = async () =>
      (await admin.query(`select number from ${schema}.numbers order by number`)).rows.map(({ number }) => number);
    const insert = (number: number) => client.query(`insert into ${schema}.numbers values ($1)`, [number]);
    return { proxy, client, numbers, insert };
  }

  test('shows that an insert takes one round trip', async () => {
    const { proxy, insert } = await setUp();
    const { roundTrips } = await proxy.countDuring(() => insert(1));
    expect(roundTrips).toBe(1);
  });

  test('applies a commit its client never hears of', async () => {
    const { proxy, client, numbers, insert } = await setUp();
    await client.query('begin');
    await insert(1);
    expect(await numbers()).toEqual([]);
    proxy.cutOnNextReply();
    await expect(client.query('commit')).rejects.toThrow();
    expect(await numbers()).toEqual([1]);
  });

  test('applies a commit whose reply is dropped', async () => {
    const { proxy, numbers, insert } = await setUp();
    proxy.dropReplies();
    const never = expect(insert(1)).rejects.toThrow();
    await proxy.until(({ droppedReplyBytes }) => droppedReplyBytes > 0);
    expect(await numbers()).toEqual([1]);
    proxy.cut();
    await never;
  });

  test('cuts an insert at any byte: it is there if all bytes got through, and else not', async () => {
    const { proxy, insert } = await setUp();
    const { requestBytes } = await proxy.countDuring(() => insert(1));
    for (const missing of [requestBytes, requestBytes - 1, 5, 1, 0]) {
      const trial = await setUp();
      trial.proxy.cutAfterRequestBytes(requestBytes - missing);
      await expect(trial.insert(1)).rejects.toThrow();
      await trial.proxy.settled();
      // The last message only asks for an answer; but before it, nothing is committed.
      expect(await trial.numbers()).toEqual(missing === 0 ? [1] : []);
    }
  });
});
