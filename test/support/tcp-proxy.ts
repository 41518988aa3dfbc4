import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { type CutKind, ProxyConnection } from './tcp-proxy-connection.ts';

/** Where a proxy passes connections on to; a server object will do. It is asked anew for each connection. */
export type ProxyTarget = { readonly host: string; readonly port: number };

/** What went through a proxy. */
export type ProxyCounters = {
  /** Connections accepted. */
  readonly connections: number;
  readonly openConnections: number;
  /** Bytes that went to the server. */
  readonly requestBytes: number;
  /** Bytes that went to the client. */
  readonly replyBytes: number;
  /** Bytes of replies that were thrown away; what the server still sends after a cut is not counted. */
  readonly droppedReplyBytes: number;
  /** How often a connection turned from request to reply. A reply that is thrown away counts too. */
  readonly roundTrips: number;
};

type Waiter = { readonly isMet: () => boolean; readonly resolve: () => void };

const ZERO = { connections: 0, requestBytes: 0, replyBytes: 0, droppedReplyBytes: 0, roundTrips: 0 };

/** The target a URL names. */
export function proxyTargetOf(url: string): ProxyTarget {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

/** Passes TCP connections on to a server, and breaks them in ways networks do, at exact points. */
export class TcpProxy {
  readonly #listener: Server;
  readonly #connections = new Set<ProxyConnection>();
  readonly #counts = { ...ZERO };
  #target: ProxyTarget;
  #waiters: Waiter[] = [];
  #delayMs = 0;
  #isStalled = false;
  #isRefusing = false;
  #requestBytesUntilCut = Number.POSITIVE_INFINITY;
  #repliesUntilCut = Number.POSITIVE_INFINITY;

  private constructor(target: ProxyTarget) {
    this.#target = target;
    this.#listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => this.#accept(client));
  }

  /** Listens on a free port of 127.0.0.1. */
  static async listen({ target }: { readonly target: ProxyTarget }): Promise<TcpProxy> {
    const proxy = new TcpProxy(target);
    proxy.#listener.listen(0, '127.0.0.1');
    await once(proxy.#listener, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  /** The same URL, by way of this proxy. */
  urlFor(url: string): string {
    const changed = new URL(url);
    changed.hostname = '127.0.0.1';
    changed.port = String(this.port);
    return changed.href;
  }

  get counters(): ProxyCounters {
    return { ...this.#counts, openConnections: this.#connections.size };
  }

  /** What went through while some work was done; open connections are those at the end of it. */
  async countDuring(work: () => Promise<unknown>): Promise<ProxyCounters> {
    const before = { ...this.#counts };
    await work();
    return {
      connections: this.#counts.connections - before.connections,
      openConnections: this.#connections.size,
      requestBytes: this.#counts.requestBytes - before.requestBytes,
      replyBytes: this.#counts.replyBytes - before.replyBytes,
      droppedReplyBytes: this.#counts.droppedReplyBytes - before.droppedReplyBytes,
      roundTrips: this.#counts.roundTrips - before.roundTrips,
    };
  }

  /** Waits until the counters are as wanted. */
  until(isWanted: (counters: ProxyCounters) => boolean): Promise<void> {
    return this.#waitFor(() => isWanted(this.counters));
  }

  /** Waits until the server has closed every connection that was cut: it is done, for good, with all that came through it. */
  settled(): Promise<void> {
    return this.#waitFor(() => [...this.#connections].every(({ isCut }) => !isCut));
  }

  /** Passes new connections on to another server. Those that are open stay where they are. */
  retarget(target: ProxyTarget): void {
    this.#target = target;
  }

  /** Cuts all clients off, now. The server still works through what it got: see `settled`. */
  cut(kind: CutKind = 'reset'): void {
    for (const connection of this.#connections) connection.cut(kind);
  }

  /** Resets new connections as soon as they are made. */
  refuse(isRefusing: boolean): void {
    this.#isRefusing = isRefusing;
  }

  /** Stops both directions of all connections, new ones too; they stay open, and neither side hears of the other's end. */
  stall(): void {
    this.#setStalled(true);
  }

  /** Stops the connections that are open now, as a broken path does. New ones take another. */
  stallOpen(): void {
    for (const connection of this.#connections) connection.stall(true);
  }

  /** Lets everything flow again after `stall` and `stallOpen`. */
  resume(): void {
    this.#setStalled(false);
  }

  /** Throws away what the server sends on the connections open now, until they are cut or closed. Requests pass. */
  dropReplies(): void {
    for (const connection of this.#connections) connection.mute();
  }

  /** Lets exactly so many more bytes through to the server, all connections taken together; then cuts the one at it. */
  cutAfterRequestBytes(count: number): void {
    this.#requestBytesUntilCut = count;
  }

  /** Cuts off the client of the next reply, none of which it gets; some replies can be let through before. */
  cutOnNextReply({ skip = 0 }: { readonly skip?: number } = {}): void {
    this.#repliesUntilCut = skip + 1;
  }

  /** Takes back `cutAfterRequestBytes` and `cutOnNextReply` that have not struck. */
  disarm(): void {
    this.#requestBytesUntilCut = Number.POSITIVE_INFINITY;
    this.#repliesUntilCut = Number.POSITIVE_INFINITY;
  }

  /** Lets bytes arrive later by so much, in each direction. */
  delay(ms: number): void {
    this.#delayMs = ms;
    for (const connection of this.#connections) connection.delay(ms);
  }

  /** Ends the proxy and all connections. */
  async close(): Promise<void> {
    for (const connection of this.#connections) connection.destroy();
    if (!this.#listener.listening) return;
    this.#listener.close();
    await once(this.#listener, 'close');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #accept(client: Socket): void {
    this.#counts.connections++;
    if (this.#isRefusing) {
      client.resetAndDestroy();
    } else {
      const server = connect({ host: this.#target.host, port: this.#target.port, allowHalfOpen: true });
      const connection = new ProxyConnection(
        { client, server },
        {
          request: (from, bytes) => this.#passRequest(from, bytes),
          reply: (from, bytes) => this.#passReply(from, bytes),
          closed: (from) => this.#forget(from),
        },
      );
      this.#connections.add(connection);
      connection.delay(this.#delayMs);
      connection.stall(this.#isStalled);
    }
    this.#wake();
  }

  #passRequest(connection: ProxyConnection, bytes: Buffer): void {
    const passed = bytes.subarray(0, this.#requestBytesUntilCut);
    this.#requestBytesUntilCut -= passed.length;
    this.#counts.requestBytes += passed.length;
    connection.sendToServer(passed);
    if (this.#requestBytesUntilCut === 0) {
      this.#requestBytesUntilCut = Number.POSITIVE_INFINITY;
      connection.cut('reset');
    }
    this.#wake();
  }

  #passReply(connection: ProxyConnection, bytes: Buffer): void {
    if (connection.turn()) this.#countReply(connection);
    if (connection.isCut || connection.isMuted) {
      this.#counts.droppedReplyBytes += bytes.length;
    } else {
      this.#counts.replyBytes += bytes.length;
      connection.sendToClient(bytes);
    }
    this.#wake();
  }

  #countReply(connection: ProxyConnection): void {
    this.#counts.roundTrips++;
    this.#repliesUntilCut--;
    if (this.#repliesUntilCut > 0) return;
    this.#repliesUntilCut = Number.POSITIVE_INFINITY;
    connection.cut('reset');
  }

  #setStalled(isStalled: boolean): void {
    this.#isStalled = isStalled;
    for (const connection of this.#connections) connection.stall(isStalled);
  }

  #forget(connection: ProxyConnection): void {
    this.#connections.delete(connection);
    this.#wake();
  }

  #waitFor(isMet: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push({ isMet, resolve });
      this.#wake();
    });
  }

  #wake(): void {
    const met = this.#waiters.filter(({ isMet }) => isMet());
    this.#waiters = this.#waiters.filter((waiter) => !met.includes(waiter));
    for (const { resolve } of met) resolve();
  }
}
