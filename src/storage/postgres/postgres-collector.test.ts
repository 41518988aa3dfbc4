import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import type { SessionId } from '../../core/record/id.ts';
import { createChunk } from '../../core/tree/chunk.ts';
import { PostgresCheckpointStorage } from './postgres-storage.ts';

const schema = freshSchema();
const chunk = createChunk({ text: JSON.stringify('garbage '.repeat(50)), refs: [] });

async function openWithGarbage(): Promise<{ storage: PostgresCheckpointStorage; tenant: string }> {
  const tenant = randomUUID();
  const storage = new PostgresCheckpointStorage({ connectionString: postgresUrl(), schema, tenant, maxConnections: 2 });
  onTestFinished(() => storage.close());
  await storage.commit({ sessionId: 's' as SessionId, chunks: [chunk] });
  return { storage, tenant };
}

test('[postgres.10] rows copied from another server are collected, although their transactions lie in the future here', async () => {
  const { storage, tenant } = await openWithGarbage();
  const admin = await adminClient();
  await admin.query(`UPDATE "${schema}".chunk SET stored = stored + 1000000000 WHERE tenant = $1`, [tenant]);
  expect((await storage.collect()).chunks).toBe(1);
});

test('[postgres.10] what a transaction brings that is still open is left alone', async () => {
  const { storage, tenant } = await openWithGarbage();
  const open = await adminClient();
  await open.query('BEGIN');
  await open.query('SELECT pg_current_xact_id()');
  await open.query(`INSERT INTO "${schema}".session VALUES ($1, 'open')`, [tenant]);
  await storage.commit({ sessionId: 's' as SessionId, chunks: [chunk] }); // brought again, after the open one began
  expect((await storage.collect()).chunks).toBe(0);
  await open.query('COMMIT');
  expect((await storage.collect()).chunks).toBe(1);
});

test('[postgres.10] a collection that is told to stop says so, and one with two connections ends', async () => {
  const { storage } = await openWithGarbage();
  await expect(storage.collect({ signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
  expect((await storage.collect()).chunks).toBe(1);
});
