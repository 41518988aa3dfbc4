import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { PostgresCheckpointStorage } from './postgres-storage.ts';

const schema = freshSchema();

test.each([
  { table: 'checkpoint', change: "branch = 'elsewhere'", where: 'NOT deleted', finding: /filed under another branch/ },
  { table: 'checkpoint', change: "user_id = 'mallory'", where: 'NOT deleted', finding: /filed under another user/ },
  { table: 'checkpoint', change: 'deleted = true', where: 'NOT deleted', finding: /tombstone is damaged/ },
  {
    table: 'checkpoint',
    change: "body = replace(body, 'old', 'new')",
    where: 'deleted',
    finding: /tombstone is damaged/,
  },
  { table: 'checkpoint', change: "body = 'x'", where: 'NOT deleted', finding: /record that cannot be read|damaged/ },
  { table: 'checkpoint', change: "root_text = root_text || ' '", where: 'NOT deleted', finding: /state|root/ },
  { table: 'chunk', change: "text = text || ' '", where: 'true', finding: /damaged/ },
  { table: 'ref', change: "target = 'chk_0000000000000000000000'", where: "kind = 'branch'", finding: /damaged/ },
  { table: 'effect', change: "body = replace(body, 'plan', 'scheme')", where: 'true', finding: /damaged/ },
  { table: 'effect', change: 'ordinal = ordinal + 7', where: 'true', finding: /damaged|effect/i },
])('[postgres.10] a changed row is found: $table, $change', async ({ table, change, where, finding }) => {
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
