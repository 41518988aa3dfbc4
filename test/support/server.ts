import { onTestFinished } from 'vitest';
import type { z } from 'zod';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { type Client, createClient } from '../../src/server/client/client.ts';
import { ROUTES } from '../../src/server/contract/routes.ts';
import { createServer, type ListenOptions, type Server } from '../../src/server/server.ts';
import type { ServerOptions } from '../../src/server/server-options.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';

/** A server on a free port of this machine, with a client whose every reply is checked against the table of routes. */
export type TestServer = {
  readonly manager: CheckpointManager;
  readonly server: Server;
  readonly url: string;
  readonly token: string;
  readonly client: Client;
  /** Asks with the token, without a client. */
  readonly ask: (path: string, init?: RequestInit & { readonly headers?: Record<string, string> }) => Promise<Response>;
};

/** The keys whose replies were checked in this file. */
export const checkedKeys = new Set<string>();

/** Starts a server that ends with the test. */
export async function startServer({
  storage = new InMemoryCheckpointStorage(),
  listen = {},
  ...options
}: ServerOptions & { readonly storage?: ChunkStorage; readonly listen?: ListenOptions } = {}): Promise<TestServer> {
  const manager = new CheckpointManager({ storage, retention: { types: {} } });
  const server = createServer(manager, { onError: () => undefined, ...options });
  const { url } = await server.listen(listen);
  onTestFinished(async () => {
    await server.close();
    await manager.close();
  });
  const token = server.token ?? '';
  const ask: TestServer['ask'] = (path, { headers, ...init } = {}) =>
    fetch(`${url}${path}`, { ...init, headers: { authorization: `Bearer ${token}`, ...headers } });
  return { manager, server, url, token, client: checked(createClient(url, { token })), ask };
}

/** Throws if a reply is not what the table says. */
function checked(client: Client): Client {
  const open = async (key: keyof typeof ROUTES, ...request: never[]) => {
    const answered = await client.open(key, ...(request as []));
    const { reply } = ROUTES[key] as { readonly reply: z.ZodType | string };
    if (typeof reply !== 'string') reply.parse(answered.reply);
    checkedKeys.add(key);
    return answered;
  };
  return {
    ...client,
    open: open as Client['open'],
    request: (async (key: never, ...request: never[]) => (await open(key, ...request)).reply) as Client['request'],
  };
}
