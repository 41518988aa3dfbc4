import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { PostgresServer } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a worker asks for its database server: `<address>/<worker>` returns the superuser's address of it. */
    postgresStarter: string;
  }
}

/**
 * Starts a server for each worker that asks for one: what is old enough to be collected depends on every transaction of a server, so files
 * that run at the same time would hold each other up. They do not sync, because nobody kills them: a test about that starts a server of its
 * own, which does. Vitest calls what it returns at the end of the run.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const servers = new Map<string, Promise<PostgresServer>>();
  const startFor = (worker: string): Promise<PostgresServer> => {
    const server = servers.get(worker) ?? PostgresServer.start({ settings: { fsync: 'off' } });
    servers.set(worker, server);
    return server;
  };
  const starter = createServer((request, response) => {
    startFor(request.url ?? '').then(
      (server) => response.end(server.url()),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => starter.listen(0, '127.0.0.1', resolve));
  project.provide('postgresStarter', `http://127.0.0.1:${(starter.address() as AddressInfo).port}`);
  return async () => {
    starter.close();
    const started = await Promise.allSettled(servers.values());
    await Promise.all(started.map((server) => (server.status === 'fulfilled' ? server.value.close() : undefined)));
  };
}
