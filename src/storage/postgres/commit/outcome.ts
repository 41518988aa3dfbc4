import type { ConflictError } from '../../../core/errors.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import type { Commit, NewEffect, RefChange } from '../../contract.ts';
import type { Query } from '../../database/postgres-database.ts';
import type { Doubt } from '../../database/retry.ts';
import { gone, moved, replaced, rewritten, taken } from '../../refusal.ts';
import type { PostgresConnection } from '../schema/postgres-connection.ts';

/** What `commit_batch` returns for one commit. */
export type Verdict =
  | { readonly status: 'stored' }
  | { readonly status: 'duplicate'; readonly id: CheckpointId }
  | { readonly status: 'missing' | 'rewritten'; readonly id: string }
  | { readonly status: 'taken' }
  | { readonly status: 'moved'; readonly ref: number; readonly found: string | null }
  | { readonly status: 'replaced'; readonly effect: number };

export type Refused = Exclude<Verdict, { status: 'stored' }>;

/** The error that a verdict stands for. */
export function refusalOf(
  { checkpoint, refs, effects, sessionId }: Commit,
  verdict: Exclude<Refused, { status: 'duplicate' }>,
): ConflictError {
  switch (verdict.status) {
    case 'missing':
      return gone(verdict.id);
    case 'rewritten':
      return rewritten(verdict.id);
    case 'taken':
      return taken(`${checkpoint?.header.id}`);
    case 'moved':
      return moved(sessionId, refs?.[verdict.ref] as RefChange, verdict.found ?? undefined);
    case 'replaced':
      return replaced(effects?.[verdict.effect] as NewEffect);
  }
}

/**
 * Whether a commit that is refused now was stored by an earlier attempt whose answer got lost. Checkpoints and effects are known by
 * their digests; names by where they point. What is found is made as durable as a commit of its own before anyone hears of it:
 * after a crash a server may show what its standby never got.
 */
export async function wasStored(
  connection: PostgresConnection,
  { commit, verdict, doubt }: { commit: Commit; verdict: Refused; doubt: Doubt },
): Promise<boolean> {
  const { tenant } = connection;
  const isNameOrEffect = verdict.status === 'moved' || verdict.status === 'replaced';
  if (commit.checkpoint === undefined && !isNameOrEffect) return false;
  return connection.transact(async (query) => {
    const isStored = await findStored(query, tenant, commit);
    const touch = 'UPDATE {s}.session SET name = name WHERE tenant = $1 AND name = $2';
    if (isStored) await query(touch, [tenant, commit.sessionId]);
    return isStored;
  }, doubt);
}

async function findStored(query: Query, tenant: string, commit: Commit): Promise<boolean> {
  const { sessionId, checkpoint, effects = [], refs = [] } = commit;
  if (checkpoint !== undefined) {
    const sql = "SELECT 1 AS found FROM {s}.checkpoint WHERE tenant = $1 AND id = $2 AND digest = decode($3, 'hex')";
    return (await query(sql, [tenant, checkpoint.header.id, checkpoint.digest])).length > 0;
  }
  const [columns, sql] =
    effects.length > 0
      ? [effects.map(({ branch, ordinal, digest }) => [branch, ordinal, digest]), ARE_EFFECTS]
      : [refs.map(({ kind, name, target }) => [kind, name, target]), ARE_REFS];
  const found = await query(sql, [tenant, sessionId, ...[0, 1, 2].map((at) => columns.map((row) => row[at]))]);
  return found.length === columns.length;
}

const ARE_EFFECTS =
  "SELECT 1 AS found FROM {s}.effect e JOIN unnest($3::text[], $4::bigint[], $5::text[]) AS w(branch, ordinal, digest) ON e.branch = w.branch AND e.ordinal = w.ordinal AND e.digest = decode(w.digest, 'hex') WHERE e.tenant = $1 AND e.session = $2";
const ARE_REFS =
  'SELECT 1 AS found FROM unnest($3::text[], $4::text[], $5::text[]) AS w(kind, name, target) LEFT JOIN {s}.ref r ON r.tenant = $1 AND r.session = $2 AND r.kind = w.kind AND r.name = w.name WHERE r.target IS NOT DISTINCT FROM w.target';

/** Whether a checkpoint or tombstone has the id that a commit brings. */
export async function isIdUsed(connection: PostgresConnection, { checkpoint }: Commit, doubt: Doubt): Promise<boolean> {
  if (checkpoint === undefined) return false;
  const sql = 'SELECT 1 AS found FROM {s}.checkpoint WHERE tenant = $1 AND id = $2';
  const rows = await connection.transact((query) => query(sql, [connection.tenant, checkpoint.header.id]), doubt);
  return rows.length > 0;
}
