import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { PostgresServer } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a worker asks for what only some tests need: `/built`, `/postgres/<worker>`. */
    onDemand: string;
  }
}

const ROOT = resolve(import.meta.dirname, '../..');

/** Each project of a run loads this module anew; what they build and start is shared. */
const run = globalThis as {
  savestateBuilt?: Promise<string>;
  savestateServers?: Map<string, Promise<PostgresServer>>;
};

/** Serves what is slow to make to the tests that ask for it, once a run. Vitest calls what it returns at the end of the run. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  run.savestateServers ??= new Map();
  const servers = run.savestateServers;
  const before = strayFolders();
  const make = async (path: string): Promise<string> => {
    if (path !== '/built') return (await startFor(servers, path)).url();
    run.savestateBuilt ??= build();
    return run.savestateBuilt;
  };
  const maker = createServer((request, response) => {
    make(request.url ?? '').then(
      (made) => response.end(made),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((done) => maker.listen(0, '127.0.0.1', done));
  project.provide('onDemand', `http://127.0.0.1:${(maker.address() as AddressInfo).port}`);
  return async () => {
    maker.close();
    const all = [...servers.values()];
    servers.clear();
    const started = await Promise.allSettled(all);
    await Promise.all(started.map((server) => (server.status === 'fulfilled' ? server.value.close() : undefined)));
    const stray = strayFolders().filter((name) => !before.includes(name));
    if (stray.length === 0) return;
    process.exitCode = 1; // Vitest itself only prints what is thrown here
    throw new Error(`A test wrote ${stray} into ${ROOT}. Give it a temporary folder.`);
  };
}

/** What programs of ours write into their working directory, unless they are given another folder. */
function strayFolders(): string[] {
  return ['logs', 'checkpoints', 'agent.db'].filter((name) => existsSync(join(ROOT, name)));
}

/**
 * A database server for each worker: what is old enough to be collected depends on every transaction of a server, so files that run at the
 * same time would hold each other up. They do not sync, because nobody kills them: a test about that starts a server of its own, which does.
 */
function startFor(servers: Map<string, Promise<PostgresServer>>, worker: string): Promise<PostgresServer> {
  const server = servers.get(worker) ?? PostgresServer.start({ settings: { fsync: 'off' } });
  servers.set(worker, server);
  return server;
}

/** What says how the library is built. */
const RECIPES = [
  'package.json',
  'tsconfig.build.json',
  'tsconfig.json',
  'vite.library.config.ts',
  'vite.studio.config.ts',
];

/** The folder of the built library; it is built if a source, or how it is built, is newer than the last build. */
async function build(): Promise<string> {
  const builtMs = Math.min(timeOf('dist/index.d.ts'), timeOf('dist/studio/index.html')); // the bench builds no types
  if (Math.max(newestBelow('src'), ...RECIPES.map(timeOf)) > builtMs)
    await promisify(execFile)('npm', ['run', '--silent', 'build'], { cwd: ROOT }).catch(({ stdout, stderr }) => {
      throw new Error(`The library cannot be built:\n${stdout}${stderr}`);
    });
  return join(ROOT, 'dist');
}

function newestBelow(folder: string): number {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  return Math.max(...names.map((name) => timeOf(join(folder, name))));
}

function timeOf(path: string): number {
  return statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
