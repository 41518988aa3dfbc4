import { groupBy } from '../../core/group-by.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { Deletion, EffectDrop, Ref, TombstoneFold } from '../contract.ts';
import type { Query } from '../database/postgres-database.ts';
import { filedUnder, tombstoneCheck } from '../marks.ts';
import { areSameRefs, Holders } from '../ref.ts';
import { isBindable } from '../sql-text.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';
import { encodeText } from './schema/sql-codec.ts';

type Candidate = { id: CheckpointId; session: SessionId; digest: Digest; deleted: boolean; body: string };
type Holder = Pick<Ref, 'kind' | 'name' | 'target'> & { readonly session: string };
type Bodies = ReadonlyMap<CheckpointId, string>;

/** Turns checkpoints into tombstones in one transaction, under the locks of their sessions. Returns the ids that were deleted now. */
export async function deleteCheckpoints(
  connection: PostgresConnection,
  deletions: readonly Deletion[],
  force: boolean,
): Promise<CheckpointId[]> {
  const bodies: Bodies = new Map(deletions.filter(({ id }) => isBindable(id)).map(({ id, body }) => [id, body]));
  if (bodies.size === 0) return [];
  const { tenant } = connection;
  const tried = new Set<CheckpointId>();
  return connection.transact(async (query) => {
    const candidates = await lockCandidates(query, tenant, [...bodies.keys()]);
    // A tombstone with our own text, where an earlier attempt wrote one, is that of the attempt whose answer got lost.
    const isDoneBefore = ({ id, deleted, body }: Candidate) =>
      tried.has(id) && deleted && body === encodeText(bodies.get(id) ?? '');
    const live = candidates.filter(({ deleted }) => !deleted);
    const doomed = await release(query, { tenant, live, force });
    await bury(query, { tenant, doomed, bodies });
    const gone = new Set([...doomed, ...candidates.filter(isDoneBefore)].map(({ id }) => id));
    for (const { id } of doomed) tried.add(id);
    return [...bodies.keys()].filter((id) => gone.has(id));
  });
}

/** Locks the sessions as commits do, then the rows: whoever requires one of them from another session is done or waits. */
async function lockCandidates(query: Query, tenant: string, ids: readonly CheckpointId[]): Promise<Candidate[]> {
  const wanted = '{s}.checkpoint WHERE tenant = $1 AND id = ANY($2)';
  await query(`SELECT {s}.lock_sessions($1, ARRAY(SELECT DISTINCT session FROM ${wanted}))`, [tenant, ids]);
  const columns = "id, session, encode(digest, 'hex') AS digest, deleted, body";
  return query<Candidate>(`SELECT ${columns} FROM ${wanted} ORDER BY id FOR UPDATE`, [tenant, ids]);
}

/** Those that no ref protects (any more). What goes with them (refs, and what was filed under them) goes now. */
async function release(
  query: Query,
  { tenant, live, force }: { tenant: string; live: readonly Candidate[]; force: boolean },
): Promise<Candidate[]> {
  const held = await query<Holder>(
    "SELECT session, kind, name, target FROM {s}.ref WHERE tenant = $1 AND session = ANY($2) AND (target = ANY($3) OR kind = 'log' AND name = ANY($3))",
    [tenant, live.map(({ session }) => session), live.map(({ id }) => id)],
  );
  const bySession = groupBy(held, ({ session }) => session);
  const holders = new Holders((session: string) => bySession.get(session) ?? []);
  const released = live.map((row) => ({ row, refs: holders.release(row.session, row.id, force) }));
  const doomed = released.flatMap(({ row, refs }) => (refs === undefined ? [] : row));
  const loose = released.flatMap(({ refs = [] }) => refs);
  await query(
    'DELETE FROM {s}.ref r USING unnest($2::text[], $3::text[], $4::text[]) AS w(session, kind, name) WHERE r.tenant = $1 AND r.session = w.session AND r.kind = w.kind AND r.name = w.name',
    [tenant, loose.map((ref) => ref.session), loose.map((ref) => ref.kind), loose.map((ref) => ref.name)],
  );
  await query(
    'DELETE FROM {s}.effect e USING unnest($2::text[], $3::text[]) AS w(session, id) WHERE e.tenant = $1 AND e.session = w.session AND e.branch = w.id',
    [tenant, doomed.map(({ session }) => session), doomed.map(({ id }) => id)],
  );
  return doomed;
}

/** A tombstone is found by what its own record says, as every other checkpoint is. */
async function bury(
  query: Query,
  { tenant, doomed, bodies }: { tenant: string; doomed: readonly Candidate[]; bodies: Bodies },
): Promise<void> {
  const rows = doomed.map(({ id, digest }) => {
    const body = bodies.get(id) ?? '';
    const columns = filedUnder(JSON.parse(body) as Partial<CheckpointHeader>);
    return { id, ...columns, mark: tombstoneCheck({ id, digest, body }), body: encodeText(body) };
  });
  await query(
    `UPDATE {s}.checkpoint c SET deleted = true, timestamp_ms = t."timestampMs", branch = t.branch, type = t.type, status = t.status,
       agent = t.agent, user_id = t."userId", idempotency = NULL, root_refs = NULL, root_text = NULL, mark = t.mark, body = t.body
     FROM jsonb_to_recordset($2::jsonb) AS t(id text, "timestampMs" double precision, branch text, type text, status text, agent text, "userId" text, mark text, body text)
     WHERE c.tenant = $1 AND c.id = t.id`,
    [tenant, JSON.stringify(rows)],
  );
}

/** Folds tombstones in one transaction, under the locks of their sessions. Returns the ids that were removed. */
export async function foldTombstones(
  connection: PostgresConnection,
  folds: readonly TombstoneFold[],
): Promise<CheckpointId[]> {
  const { tenant } = connection;
  const ids = folds.flatMap(({ id, removes }) => [id, ...removes]);
  return connection.transact(async (query) => {
    const found = (await lockCandidates(query, tenant, ids)).filter(({ deleted }) => deleted);
    const tombstones = new Map(found.map((row) => [row.id, row]));
    const fitting = folds.filter(({ id, expect }) => tombstones.get(id)?.body === encodeText(expect));
    const bodies: Bodies = new Map(fitting.map(({ id, body }) => [id, body]));
    await bury(query, { tenant, doomed: found.filter(({ id }) => bodies.has(id)), bodies });
    const removed = fitting.flatMap(({ removes }) => removes.filter((id) => tombstones.has(id)));
    await query('DELETE FROM {s}.checkpoint WHERE tenant = $1 AND id = ANY($2) AND deleted', [tenant, removed]);
    return removed;
  });
}

/** Removes the first effects of a log, under the lock of its session. Returns how many. */
export async function dropEffects(
  connection: PostgresConnection,
  { sessionId, branch, before, limit }: EffectDrop,
): Promise<number> {
  if (!isBindable(sessionId) || !isBindable(branch)) return 0;
  const place = [connection.tenant, sessionId];
  const log = 'tenant = $1 AND session = $2 AND branch = $3';
  const first = `SELECT ordinal FROM {s}.effect WHERE ${log} AND ordinal < $4 ORDER BY ordinal LIMIT $5`;
  const drop = `DELETE FROM {s}.effect WHERE ${log} AND ordinal IN (${first}) RETURNING ordinal`;
  return connection.transact(async (query) => {
    await query(LOCK, place);
    return (await query(drop, [...place, branch, before, limit])).length;
  });
}

const LOCK = 'SELECT {s}.lock_sessions($1, ARRAY[$2])';

/** Removes every row of a session. Returns whether it was there; if an attempt found it, its absence later is our own doing. */
export async function deleteSession(
  connection: PostgresConnection,
  sessionId: SessionId,
  ifRefs: readonly Ref[] | undefined,
): Promise<boolean> {
  if (!isBindable(sessionId)) return false;
  const values = [connection.tenant, sessionId];
  let wasFound = false;
  return connection.transact(async (query) => {
    await query(LOCK, values);
    const refs = await query<Ref>('SELECT kind, name, target FROM {s}.ref WHERE tenant = $1 AND session = $2', values);
    // An earlier attempt may have deleted it, and its answer got lost.
    if (ifRefs !== undefined && !areSameRefs(refs, ifRefs)) return wasFound;
    for (const table of ['checkpoint', 'effect', 'ref'])
      await query(`DELETE FROM {s}.${table} WHERE tenant = $1 AND session = $2`, values);
    const found = await query('DELETE FROM {s}.session WHERE tenant = $1 AND name = $2 RETURNING name', values);
    wasFound ||= found.length > 0;
    return wasFound;
  });
}
