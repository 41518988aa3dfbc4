import type { TestProject } from 'vitest/node';
import { PostgresServer } from './postgres-server.ts';
import { WORKERS } from './workers.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The superuser's addresses of the servers of a run, one for each worker. */
    postgresUrls: readonly string[];
  }
}

/**
 * Starts a server for each worker: what is old enough to be collected depends on every transaction of a server, so files that run at the same
 * time would hold each other up. They do not sync, because nobody kills them: a test about that starts a server of its own, which does.
 * Vitest calls what it answers at the end of the run.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const settings = { fsync: 'off' };
  const servers = await Promise.all(Array.from({ length: WORKERS }, () => PostgresServer.start({ settings })));
  project.provide(
    'postgresUrls',
    servers.map((server) => server.url()),
  );
  return async () => {
    await Promise.all(servers.map((server) => server.close()));
  };
}
