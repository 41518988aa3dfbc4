import pg from 'pg';
import { expect, onTestFinished, test, vi } from 'vitest';
import { adminClient, postgresUrl } from '../../../test/support/postgres.ts';
import { Connections } from './connections.ts';

function open({ max, isOwn = true }: { max: number; isOwn?: boolean }) {
  const pool = new pg.Pool({ connectionString: postgresUrl(), max });
  pool.on('error', () => undefined);
  const connections = new Connections(pool, { timeoutMs: 5_000, isOwn });
  onTestFinished(async () => {
    connections.close();
    await pool.end();
  });
  return { pool, connections };
}

async function pidOf(client: pg.PoolClient): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return rows[0]?.pid ?? 0;
}

test('[postgres.2] one call after another has the connection of the one before, until the server ends it', async () => {
  const { pool, connections } = open({ max: 5 });
  const first = await connections.use(pidOf);
  expect(await connections.use(pidOf)).toBe(first);
  expect(pool.idleCount).toBe(0); // it is held back
  const admin = await adminClient();
  await admin.query('SELECT pg_terminate_backend($1)', [first]);
  await vi.waitFor(() => expect(pool.totalCount).toBe(0), { timeout: 10_000 });
  expect(await connections.use(pidOf)).not.toBe(first);
});

test('[postgres.2] more calls than connections all get one', async () => {
  const { connections } = open({ max: 1 });
  await connections.use(pidOf);
  const pids = await Promise.all([1, 2, 3].map(() => connections.use(pidOf)));
  expect(new Set(pids).size).toBe(1);
});

test('[postgres.2] what is held back goes to the pool soon, and when the storage closes', async () => {
  const { pool, connections } = open({ max: 5 });
  await connections.use(pidOf);
  await vi.waitFor(() => expect(pool.idleCount).toBe(1), { timeout: 10_000 });
  await connections.use(pidOf);
  expect(pool.idleCount).toBe(0);
  connections.close();
  expect(pool.idleCount).toBe(1);
  await connections.use(pidOf);
  expect(pool.idleCount).toBe(1);
});

test('[postgres.2] a pool of the program has its connections back after each call', async () => {
  const { pool, connections } = open({ max: 5, isOwn: false });
  await connections.use(pidOf);
  expect(pool.idleCount).toBe(1);
});
