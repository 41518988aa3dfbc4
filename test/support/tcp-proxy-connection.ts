import type { Socket } from 'node:net';
import { Lane } from './tcp-proxy-lane.ts';

/** How a client learns of a cut: by a reset, or by an end that looks like a polite one. */
export type CutKind = 'reset' | 'end';

/** What a connection asks the proxy. */
export interface ConnectionObserver {
  /** Decides about bytes on their way to the server. */
  request(connection: ProxyConnection, bytes: Buffer): void;
  /** Decides about bytes on their way to the client. */
  reply(connection: ProxyConnection, bytes: Buffer): void;
  /** Hears that both sides are closed. */
  closed(connection: ProxyConnection): void;
}

/** A client's connection to the proxy and the one to the server that belongs to it. Both keep half-open states. */
export class ProxyConnection {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #requests: Lane;
  readonly #replies: Lane;
  #isCut = false;
  #isMuted = false;
  #isAnswerDue = false;

  constructor(sockets: { readonly client: Socket; readonly server: Socket }, observer: ConnectionObserver) {
    const { client, server } = sockets;
    this.#client = client;
    this.#server = server;
    this.#requests = new Lane({
      source: client,
      target: server,
      deliver: (bytes) => observer.request(this, bytes),
    });
    this.#replies = new Lane({ source: server, target: client, deliver: (bytes) => observer.reply(this, bytes) });
    client.on('error', () => this.#isCut || server.resetAndDestroy());
    server.on('error', () => client.resetAndDestroy());
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('close', () => client.closed && server.closed && observer.closed(this));
    }
  }

  /** Whether the client is cut off; the server may still be busy with what it got before. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Whether replies are thrown away. */
  get isMuted(): boolean {
    return this.#isMuted;
  }

  mute(): void {
    this.#isMuted = true;
  }

  delay(ms: number): void {
    this.#requests.delay(ms);
    this.#replies.delay(ms);
  }

  stall(isStalled: boolean): void {
    this.#requests.stall(isStalled);
    this.#replies.stall(isStalled);
  }

  sendToServer(bytes: Buffer): void {
    if (bytes.length > 0) this.#isAnswerDue = true;
    this.#requests.write(bytes);
  }

  sendToClient(bytes: Buffer): void {
    this.#replies.write(bytes);
  }

  /** Whether these are the first bytes of a reply since the last request. */
  turn(): boolean {
    const isTurn = this.#isAnswerDue;
    this.#isAnswerDue = false;
    return isTurn;
  }

  /**
   * Cuts the client off. To the server it looks as if the client had closed after its last byte: it works through what it
   * got, and its replies are read and thrown away, since a server that cannot send may give up what it is doing.
   */
  cut(kind: CutKind): void {
    if (this.#isCut) return;
    this.#isCut = true;
    this.#requests.close();
    this.#replies.close();
    if (kind === 'reset') this.#client.resetAndDestroy();
    else this.#client.destroy();
    this.#server.end();
  }

  /** Ends both sides at once. */
  destroy(): void {
    this.cut('reset');
    this.#server.resetAndDestroy();
  }
}
