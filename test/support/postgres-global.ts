import type { TestProject } from 'vitest/node';
import { PostgresServer } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The superuser's address of the server all tests of a run share. */
    postgresUrl: string;
  }
}

/** Starts the server all tests of a run share; vitest calls what it answers at the end of the run. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await PostgresServer.start();
  project.provide('postgresUrl', server.url());
  return () => server.close();
}
