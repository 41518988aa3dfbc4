import type { Digest } from '../../core/tree/chunk.ts';
import { OBJECTS_FINDING } from '../../core/tree/object-stub.ts';
import { decodeEffect, type EffectColumns } from '../database/sql-reader.ts';
import { checkEffect, checkFiled, eachRow, type FiledColumns } from '../marks.ts';
import { POSTGRES_CODEC, POSTGRES_DIALECT, type PostgresForm } from './postgres-reader.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';
import { isStub } from './schema/schema-functions.ts';
import { decodeText } from './schema/sql-codec.ts';

const ROWS_PER_PAGE = 500;

const CHECKPOINTS = `SELECT id, session, deleted AS "isDeleted", root_text IS NOT NULL AS "hasRoot", timestamp_ms AS "timestampMs", branch, type, status, agent, user_id AS "userId", idempotency, mark, encode(digest, 'hex') AS digest, body
  FROM {s}.checkpoint WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT ${ROWS_PER_PAGE}`;

const EFFECTS = `SELECT ${POSTGRES_DIALECT.effect}, e.mark FROM {s}.effect e WHERE e.tenant = $1 AND (e.session, e.branch, e.ordinal) > ($2, $3, $4)
  ORDER BY e.session, e.branch, e.ordinal LIMIT ${ROWS_PER_PAGE}`;

const STRAYS = `SELECT DISTINCT held.session AS name FROM (
    SELECT session FROM {s}.checkpoint WHERE tenant = $1 UNION SELECT session FROM {s}.ref WHERE tenant = $1
    UNION SELECT session FROM {s}.effect WHERE tenant = $1
  ) AS held WHERE NOT EXISTS (SELECT FROM {s}.session WHERE tenant = $1 AND name = held.session)`;

const OBJECTS = `SELECT 1 FROM {s}.chunk AS c WHERE tenant = $1 AND ${isStub('c')} LIMIT 1`;

type StoredCheckpoint = FiledColumns & { readonly digest: Digest; readonly body: string };
type StoredEffect = EffectColumns<PostgresForm> & { readonly mark: string };

/** What no digest covers and the server does not look at: rows filed under other names than their records say, and broken marks. */
export async function findDamage(connection: PostgresConnection): Promise<string[]> {
  const { tenant } = connection;
  const checkpoints = eachRow(ROWS_PER_PAGE, (last: StoredCheckpoint | undefined) =>
    connection.read<StoredCheckpoint>(CHECKPOINTS, [tenant, last?.id ?? '']),
  );
  const effects = eachRow(ROWS_PER_PAGE, (last: StoredEffect | undefined) =>
    connection.read<StoredEffect>(EFFECTS, [tenant, last?.session ?? '', last?.branch ?? '', last?.ordinal ?? -1]),
  );
  const findings: string[] = [];
  for await (const row of checkpoints)
    findings.push(...checkFiled(row, () => ({ digest: row.digest, body: decodeText(row.body) })));
  for await (const row of effects) findings.push(...checkEffect(row, () => decodeEffect(row, POSTGRES_CODEC)));
  for (const { name } of await connection.read<{ name: string }>(STRAYS, [tenant]))
    findings.push(`Session "${name}" has rows, and is not listed.`);
  if ((await connection.read(OBJECTS, [tenant])).length > 0) findings.push(OBJECTS_FINDING);
  return findings;
}
