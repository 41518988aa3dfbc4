import type { Digest } from '../../core/tree/chunk.ts';
import { checkFiled, effectCheck, type FiledColumns } from '../marks.ts';
import { decodeEffect, EFFECT_COLUMNS, type EffectColumns } from './postgres-reader.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';
import { decodeText } from './schema/sql-codec.ts';

const ROWS_PER_PAGE = 500;

type StoredCheckpoint = FiledColumns & { digest: Digest; body: string };
type StoredEffect = EffectColumns & { mark: string };

/** What no digest covers and the server does not look at: rows filed under other names than their records say, and broken marks. */
export async function findDamage(connection: PostgresConnection): Promise<string[]> {
  const findings: string[] = [];
  for await (const row of readCheckpoints(connection))
    findings.push(...checkFiled(row, () => ({ digest: row.digest, body: decodeText(row.body) })));
  for await (const row of readEffects(connection)) findings.push(...checkEffect(row));
  for (const { name } of await strayRows(connection)) findings.push(`Session "${name}" has rows, and is not listed.`);
  return findings;
}

async function* readCheckpoints(connection: PostgresConnection): AsyncGenerator<StoredCheckpoint> {
  const sql = `SELECT id, session, deleted AS "isDeleted", root_text IS NOT NULL AS "hasRoot", timestamp_ms AS "timestampMs", branch, type, status, agent, user_id AS "userId", idempotency, mark, encode(digest, 'hex') AS digest, body
    FROM {s}.checkpoint WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT ${ROWS_PER_PAGE}`;
  for (let after = ''; ; ) {
    const rows = await connection.read<StoredCheckpoint>(sql, [connection.tenant, after]);
    yield* rows;
    if (rows.length < ROWS_PER_PAGE) return;
    after = rows.at(-1)?.id ?? '';
  }
}

async function* readEffects(connection: PostgresConnection): AsyncGenerator<StoredEffect> {
  const sql = `SELECT ${EFFECT_COLUMNS}, e.mark FROM {s}.effect e WHERE e.tenant = $1 AND (e.session, e.branch, e.ordinal) > ($2, $3, $4)
    ORDER BY e.session, e.branch, e.ordinal LIMIT ${ROWS_PER_PAGE}`;
  for (let after: [string, string, number] = ['', '', -1]; ; ) {
    const rows = await connection.read<StoredEffect>(sql, [connection.tenant, ...after]);
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_PAGE) return;
    after = [last.session, last.branch, last.ordinal];
  }
}

function checkEffect(row: StoredEffect): string[] {
  const effect = decodeEffect(row);
  if (row.mark === effectCheck(effect)) return [];
  return [`Effect ${row.ordinal} of branch "${row.branch}" of session "${row.session}" is damaged.`];
}

async function strayRows(connection: PostgresConnection): Promise<{ name: string }[]> {
  const sql = `SELECT DISTINCT held.session AS name FROM (
      SELECT session FROM {s}.checkpoint WHERE tenant = $1 UNION SELECT session FROM {s}.ref WHERE tenant = $1
      UNION SELECT session FROM {s}.effect WHERE tenant = $1
    ) AS held WHERE NOT EXISTS (SELECT FROM {s}.session WHERE tenant = $1 AND name = held.session)`;
  return connection.read<{ name: string }>(sql, [connection.tenant]);
}
