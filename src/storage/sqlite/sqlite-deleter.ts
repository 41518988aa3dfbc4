import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Deletion, EffectDrop, Ref, TombstoneFold } from '../contract.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import { filedUnder, tombstoneCheck } from '../marks.ts';
import { areSameRefs, Holders } from '../ref.ts';
import { isBindable } from '../sql-text.ts';
import { type TextEncoder, unpackDigest } from './sqlite-codec.ts';

type LiveColumns = { n: number; session: number; digest: Uint8Array };

/** Turns checkpoints into tombstones, in the caller's transaction. Returns the ids that were deleted now. */
export function deleteCheckpoints(
  connection: SqliteConnection,
  deletions: readonly Deletion[],
  options: { readonly force: boolean; readonly encodeText: TextEncoder },
): CheckpointId[] {
  const holders = new Holders((session: number) => readNames(connection, session));
  const select = connection.prepare('SELECT n, session, digest FROM checkpoint WHERE id=? AND deleted=0');
  const bury = connection.prepare(
    'UPDATE checkpoint SET deleted=1, timestamp=?, branch=?, type=?, status=?, agent=?, user=?, idempotency=NULL, root_refs=NULL, root_text=NULL, mark=?, body=? WHERE n=?',
  );
  const unname = connection.prepare('DELETE FROM ref WHERE session=? AND kind=? AND name=?');
  // What was filed under a checkpoint goes with it.
  const unlog = connection.prepare('DELETE FROM effect WHERE session=? AND branch=?');
  const deleted: CheckpointId[] = [];
  for (const { id, body } of deletions) {
    const row = isBindable(id) ? (select.get(id) as LiveColumns | undefined) : undefined;
    const released = row && holders.release(row.session, id, options.force);
    if (row === undefined || released === undefined) continue;
    for (const { kind, name } of released) unname.run(row.session, kind, name);
    const check = tombstoneCheck({ id, digest: unpackDigest(row.digest), body });
    // A tombstone is found by what its own record says, as every other checkpoint is.
    const columns = Object.values(filedUnder(JSON.parse(body) as Partial<CheckpointHeader>));
    bury.run(...columns, check, options.encodeText(body), row.n);
    if (Number(unlog.run(row.session, id).changes) > 0) noteReuse(connection);
    deleted.push(id);
  }
  return deleted;
}

/** Folds tombstones, in the caller's transaction. Returns the ids that were removed. */
export function foldTombstones(
  connection: SqliteConnection,
  folds: readonly TombstoneFold[],
  encodeText: TextEncoder,
): CheckpointId[] {
  const select = connection.prepare('SELECT n, digest, mark FROM checkpoint WHERE id=? AND deleted=1');
  const update = connection.prepare('UPDATE checkpoint SET mark=?, body=? WHERE n=?');
  const remove = connection.prepare('DELETE FROM checkpoint WHERE id=? AND deleted=1');
  const removed: CheckpointId[] = [];
  for (const { id, expect, body, removes } of folds) {
    const row = select.get(id) as { n: number; digest: Uint8Array; mark: string } | undefined;
    const digest = row && unpackDigest(row.digest);
    if (row === undefined || digest === undefined || row.mark !== tombstoneCheck({ id, digest, body: expect }))
      continue;
    update.run(tombstoneCheck({ id, digest, body }), encodeText(body), row.n);
    for (const one of removes) if (Number(remove.run(one).changes) > 0) removed.push(one);
  }
  if (removed.length > 0) noteReuse(connection);
  return removed;
}

/** Removes the first effects of a log, in the caller's transaction. Returns how many. */
export function dropEffects(connection: SqliteConnection, { sessionId, branch, before, limit }: EffectDrop): number {
  if (!isBindable(sessionId) || !isBindable(branch)) return 0;
  const first =
    'SELECT n FROM effect WHERE session=(SELECT n FROM session WHERE name=?) AND branch=? AND ordinal<? ORDER BY ordinal LIMIT ?';
  const { changes } = connection
    .prepare(`DELETE FROM effect WHERE n IN (${first})`)
    .run(sessionId, branch, before, limit);
  if (Number(changes) > 0) noteReuse(connection);
  return Number(changes);
}

/** Numbers of removed rows are used again, so a collector must not trust "greater than what I have seen" any more. */
function noteReuse(connection: SqliteConnection): void {
  connection.prepare('UPDATE epoch SET value=value+1 WHERE n=1').run();
}

type RefName = Pick<Ref, 'kind' | 'name' | 'target'>;

function readNames(connection: SqliteConnection, session: number): RefName[] {
  return connection.prepare('SELECT kind, name, target FROM ref WHERE session=?').all(session) as RefName[];
}

/** Removes every row of a session, in the caller's transaction; with `ifRefs` only if these are its refs. Returns whether it did. */
export function deleteSession(
  connection: SqliteConnection,
  sessionId: SessionId,
  ifRefs: readonly Ref[] | undefined,
): boolean {
  if (!isBindable(sessionId)) return false;
  const row = connection.prepare('SELECT n FROM session WHERE name=?').get(sessionId) as { n: number } | undefined;
  if (row === undefined) return false;
  if (ifRefs !== undefined && !areSameRefs(readNames(connection, row.n), ifRefs)) return false;
  for (const table of ['checkpoint', 'effect', 'ref'])
    connection.prepare(`DELETE FROM ${table} WHERE session=?`).run(row.n);
  connection.prepare('DELETE FROM session WHERE n=?').run(row.n);
  noteReuse(connection);
  return true;
}
