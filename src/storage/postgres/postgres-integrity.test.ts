import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { PostgresCheckpointStorage } from './postgres-storage.ts';

const schema = freshSchema();

test.each([
  ['checkpoint', "branch = 'elsewhere'", 'NOT deleted', /filed under another branch/],
  ['checkpoint', "user_id = 'mallory'", 'NOT deleted', /filed under another user/],
  ['checkpoint', 'deleted = true', 'NOT deleted', /tombstone is damaged/],
  ['checkpoint', "body = replace(body, 'old', 'new')", 'deleted', /tombstone is damaged/],
  ['checkpoint', "body = 'x'", 'NOT deleted', /record that cannot be read|damaged/],
  ['checkpoint', "root_text = root_text || ' '", 'NOT deleted', /state|root/],
  ['chunk', "text = text || ' '", 'true', /damaged/],
  ['ref', "target = 'chk_0000000000000000000000'", "kind = 'branch'", /damaged/],
  ['effect', "body = replace(body, 'plan', 'scheme')", 'true', /damaged/],
  ['effect', 'ordinal = ordinal + 7', 'true', /damaged|effect/i],
])('[P23] a changed row is found: %s, %s', async (table, change, where, finding) => {
  const tenant = randomUUID();
  const storage = new PostgresCheckpointStorage({ connectionString: postgresUrl(), schema, tenant });
  const manager = new CheckpointManager({ storage });
  onTestFinished(() => manager.close());
  const session = await manager.session('s');
  await session.step('plan', () => 'a');
  const first = await session.save({ text: 'x'.repeat(2000) }, { userId: 'ann' });
  await session.save({ text: 'x'.repeat(2000), more: true }, { userId: 'ann' });
  await manager.delete(first, { reason: 'old' });
  expect(await manager.verify({ readData: true })).toMatchObject({ status: 'clean' });
  const admin = await adminClient();
  const { rowCount } = await admin.query(`UPDATE "${schema}".${table} SET ${change} WHERE tenant = $1 AND ${where}`, [
    tenant,
  ]);
  expect(rowCount).toBeGreaterThan(0);
  const { status, findings } = await manager.verify({ readData: true });
  expect(status).not.toBe('clean');
  expect(JSON.stringify(findings)).toMatch(finding);
});
