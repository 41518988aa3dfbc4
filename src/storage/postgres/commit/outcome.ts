import type { Commit } from '../../contract.ts';
import type { Query } from '../../database/postgres-database.ts';
import type { Doubt } from '../../database/retry.ts';
import type { PostgresConnection } from '../schema/postgres-connection.ts';

/**
 * Whether a commit that is refused now was stored by an earlier attempt whose answer got lost. Checkpoints and effects are known by
 * their digests; names by where they point. What is found is made as durable as a commit of its own before anyone hears of it:
 * after a crash a server may show what its standby never got.
 */
export async function wasStored(
  connection: PostgresConnection,
  { commit, verdict, doubt }: { commit: Commit; verdict: { readonly status: string }; doubt: Doubt },
): Promise<boolean> {
  return connection.transact(async (query) => {
    const isStored = await findStored(query, { commit, tenant: connection.tenant, verdict });
    if (isStored)
      await query('UPDATE {s}.session SET name = name WHERE tenant = $1 AND name = $2', [
        connection.tenant,
        commit.sessionId,
      ]);
    return isStored;
  }, doubt);
}

/** Whether a checkpoint or tombstone has the id that a commit brings. */
export async function isIdUsed(connection: PostgresConnection, { checkpoint }: Commit, doubt: Doubt): Promise<boolean> {
  if (checkpoint === undefined) return false;
  const sql = 'SELECT 1 AS found FROM {s}.checkpoint WHERE tenant = $1 AND id = $2';
  const rows = await connection.transact((query) => query(sql, [connection.tenant, checkpoint.header.id]), doubt);
  return rows.length > 0;
}

type Question = { readonly commit: Commit; readonly tenant: string; readonly verdict: { readonly status: string } };

async function findStored(query: Query, { commit, tenant, verdict }: Question): Promise<boolean> {
  const { sessionId, checkpoint, effects = [], refs = [] } = commit;
  if (checkpoint !== undefined) {
    const sql = "SELECT 1 AS found FROM {s}.checkpoint WHERE tenant = $1 AND id = $2 AND digest = decode($3, 'hex')";
    return (await query(sql, [tenant, checkpoint.header.id, checkpoint.digest])).length > 0;
  }
  if (verdict.status !== 'moved' && verdict.status !== 'replaced') return false;
  if (effects.length > 0) {
    const sql =
      "SELECT 1 AS found FROM {s}.effect e JOIN unnest($3::text[], $4::bigint[], $5::text[]) AS w(branch, ordinal, digest) ON e.branch = w.branch AND e.ordinal = w.ordinal AND e.digest = decode(w.digest, 'hex') WHERE e.tenant = $1 AND e.session = $2";
    const columns = [
      effects.map((row) => row.branch),
      effects.map((row) => row.ordinal),
      effects.map((row) => row.digest),
    ];
    return (await query(sql, [tenant, sessionId, ...columns])).length === effects.length;
  }
  const sql =
    'SELECT 1 AS found FROM unnest($3::text[], $4::text[], $5::text[]) AS w(kind, name, target) LEFT JOIN {s}.ref r ON r.tenant = $1 AND r.session = $2 AND r.kind = w.kind AND r.name = w.name WHERE r.target IS NOT DISTINCT FROM w.target';
  const columns = [refs.map((ref) => ref.kind), refs.map((ref) => ref.name), refs.map((ref) => ref.target)];
  return (await query(sql, [tenant, sessionId, ...columns])).length === refs.length;
}
