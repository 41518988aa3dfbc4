import type { Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { InvalidInputError, messageOf, StorageError } from '../core/errors.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { toOpenApi } from './contract/open-api.ts';
import { EventHub } from './events/event-hub.ts';
import { streamEvents } from './events/event-stream.ts';
import { Cache, States } from './handlers/cache.ts';
import type { SessionFigures } from './handlers/call.ts';
import { TeamRuns } from './handlers/team-runs.ts';
import { Access, createToken, isLoopback } from './http/access.ts';
import { createApp } from './http/app.ts';
import { Dispatcher } from './http/dispatch.ts';
import { createFiles } from './http/files.ts';
import { readManifest } from './http/package-folder.ts';
import { checkServerOptions, type ServerOptions } from './server-options.ts';

const MAX_BODY_BYTES = 16 * 1024 ** 2;
const TIMEOUT_MS = 30_000;
/** Replies under way may end within this time. */
const CLOSE_GRACE_MS = 500;
/** Of so many sessions figures are kept. */
const KEPT_FIGURES = 1_000;

/** Where a server listens. */
export type ListenOptions = {
  /** Default 127.0.0.1. Any other than this machine needs a token. */
  readonly host?: string | undefined;
  /** Default: any that is free. */
  readonly port?: number | undefined;
};

/** A server that listens. */
export type Listening = {
  readonly url: string;
  /** With the token in its fragment, which browsers do not send. */
  readonly accessUrl: string;
  readonly port: number;
  readonly warnings: readonly string[];
};

/** Sessions over HTTP. */
export interface Server {
  /** Answers one request: mount it in an app of your own. */
  readonly fetch: (request: Request) => Promise<Response>;
  readonly token: string | undefined;
  listen(options?: ListenOptions): Promise<Listening>;
  /** Pauses what is run from the page and ends the connections; the manager stays open. Idempotent. */
  close(): Promise<void>;
}

/** Makes a server over a manager. It does not listen before `listen` is called. */
export function createServer(manager: CheckpointManager, options: ServerOptions = {}): Server {
  checkServerOptions(options);
  const token = options.token === false ? undefined : (options.token ?? createToken());
  const { hosts = [], origins = [], memory, label, address, readOnly = false, onError = warn } = options;
  const { timeoutMs = TIMEOUT_MS, maxBodyBytes = MAX_BODY_BYTES } = options;
  const access = new Access({ token, hosts: hosts.map((host) => host.toLowerCase()), origins });
  const hub = new EventHub(manager, onError);
  const teamRuns = new TeamRuns(options.team, (sessionId) => hub.tell({ event: 'run', sessionId }));
  const parts = {
    manager,
    memory,
    isReadOnly: readOnly,
    label,
    address,
    version: readManifest().version,
    states: new States(manager),
    figures: new Cache<SessionFigures>(KEPT_FIGURES),
    teamRuns,
  };
  const closing = new AbortController();
  const app = createApp({
    access,
    dispatcher: new Dispatcher(parts, { timeoutMs, maxBodyBytes }),
    timeoutMs,
    onError,
    events: (request) => streamEvents(hub, request, closing.signal),
    onChange: () => void hub.lookAtNames().catch(onError),
    files: createFiles(options.studio),
    openApi: () => toOpenApi(parts.version),
    mcp: options.mcp,
  });
  const http = new Listener(access, { token, fetch: async (request) => app.fetch(request) });
  return {
    fetch: async (request) => app.fetch(request),
    token,
    listen: (place = {}) => http.listen(place),
    close: async () => {
      closing.abort();
      await teamRuns.close();
      hub.stop();
      await http.close();
    },
  };
}

function warn(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.emitWarning(`A request failed: ${text}`, 'SavestateWarning');
}

type ListenerParts = { readonly token: string | undefined; readonly fetch: (request: Request) => Promise<Response> };

/** The sockets of a server. */
class Listener {
  readonly #access: Access;
  readonly #parts: ListenerParts;
  #server: HttpServer | undefined;

  constructor(access: Access, parts: ListenerParts) {
    this.#access = access;
    this.#parts = parts;
  }

  async listen({ host = '127.0.0.1', port = 0 }: ListenOptions): Promise<Listening> {
    const { token, fetch } = this.#parts;
    const isLocal = isLoopback(host);
    if (!isLocal && token === undefined)
      throw new InvalidInputError(`Without a token a server listens on this machine only; found the host "${host}".`);
    if (!isLocal) this.#access.takeAddresses();
    const server = createAdaptorServer({ fetch, overrideGlobalObjects: false }) as HttpServer;
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) =>
        reject(new StorageError(`Cannot listen on ${host}:${port}: ${messageOf(cause)}.`, { cause })),
      );
      server.listen(port, host, () => resolve());
    });
    const found = (server.address() as AddressInfo).port;
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${found}`;
    const warnings = isLocal
      ? []
      : [`${url} is not encrypted: whoever is on the way can read the token. Put TLS in front of it.`];
    return { url, accessUrl: token === undefined ? url : `${url}/#token=${token}`, port: found, warnings };
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise((resolve) => server.close(resolve));
    setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS).unref(); // those that have not ended by themselves
    await closed;
  }
}
