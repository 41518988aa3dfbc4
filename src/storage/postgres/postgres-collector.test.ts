import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { countingPool } from '../../../test/support/rows-per-statement.ts';
import type { SessionId } from '../../core/record/id.ts';
import { createChunk } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
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

test('[storage.16] a collection looks at few rows in a statement, however many chunks there are', async () => {
  const { pool, rowsPerStatement } = countingPool(schema);
  const storage = new PostgresCheckpointStorage({ pool, schema, tenant: randomUUID() });
  const manager = new CheckpointManager({ storage });
  const save = (sessionId: string) =>
    manager.save({ notes: Array.from({ length: 2_500 }, () => randomUUID().repeat(20)) }, { sessionId });
  await save('kept');
  const { chunks: kept } = await storage.stats();
  await save('deleted');
  const { chunks: all } = await storage.stats();
  expect(kept).toBeGreaterThan(2_500);
  await storage.deleteSession('deleted' as SessionId);
  rowsPerStatement.length = 0;
  expect((await manager.gc()).chunks).toBe(all - kept);
  expect(Math.max(...rowsPerStatement)).toBeLessThanOrEqual(2_000); // what it deletes it looks at twice
  rowsPerStatement.length = 0;
  expect((await storage.collect()).chunks).toBe(0);
  expect(Math.max(...rowsPerStatement)).toBeLessThanOrEqual(1_000);
  expect(rowsPerStatement.length).toBeGreaterThan((2 * kept) / 1_000); // each chunk is looked at twice
  rowsPerStatement.length = 0;
  expect(await storage.stats()).toMatchObject({ chunks: kept });
  expect(Math.max(...rowsPerStatement)).toBeLessThanOrEqual(1_000);
  expect((await manager.verify()).status).toBe('clean');
  await manager.close();
});

test('[storage.16] [storage.19] a server that takes long for each row is asked for fewer at a time', async () => {
  const [slow, tenant] = [freshSchema(), randomUUID()];
  const options = { connectionString: postgresUrl(), schema: slow, tenant, timeoutMs: 1_500 };
  const storage = new PostgresCheckpointStorage(options);
  onTestFinished(() => storage.close());
  const chunks = Array.from({ length: 1_000 }, (_, n) => createChunk({ text: `"${n} ${tenant}"`, refs: [] }));
  await storage.commit({ sessionId: 's' as SessionId, chunks });
  const isSlow = "tenant = current_setting('savestate.tenant') AND pg_sleep(0.002)::text = ''";
  await (await adminClient()).query(`ALTER POLICY own_tenant ON "${slow}".chunk USING (${isSlow})`);
  expect(await storage.stats()).toMatchObject({ chunks: 1_000 });
  expect(await storage.collect({ signal: AbortSignal.timeout(120_000) })).toMatchObject({ chunks: 1_000 });
});

test('[storage.16] references that are damaged stop a collection before it removes anything', async () => {
  const { storage, tenant } = await openWithGarbage();
  const manager = new CheckpointManager({ storage });
  await manager.save({ text: 'x'.repeat(5_000) }, { sessionId: 'kept' });
  const admin = await adminClient();
  const { chunks } = await storage.stats();
  await admin.query(`UPDATE "${schema}".checkpoint SET root_refs = root_refs || '\\x00'::bytea WHERE tenant = $1`, [
    tenant,
  ]);
  await expect(storage.collect()).rejects.toMatchObject({
    code: 'CORRUPT',
    message: expect.stringMatching(/references of checkpoint/),
  });
  expect((await storage.stats()).chunks).toBe(chunks);
});
