import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Deletion, Ref } from '../contract.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import { filedUnder, tombstoneCheck } from '../marks.ts';
import { areSameRefs, isProtecting } from '../ref.ts';
import { isBindable } from '../sql-text.ts';
import { type TextEncoder, unpackDigest } from './sqlite-codec.ts';

type LiveColumns = { n: number; session: number; digest: Uint8Array };
type Holder = { readonly kind: string; readonly name: string };

/** Turns checkpoints into tombstones, in the caller's transaction. Returns the ids that were deleted now. */
export function deleteCheckpoints(
  connection: SqliteConnection,
  deletions: readonly Deletion[],
  options: { readonly force: boolean; readonly encodeText: TextEncoder },
): CheckpointId[] {
  const holders = new Holders(connection);
  const select = connection.prepare('SELECT n, session, digest FROM checkpoint WHERE id=? AND deleted=0');
  const bury = connection.prepare(
    'UPDATE checkpoint SET deleted=1, timestamp=?, branch=?, type=?, status=?, agent=?, user=?, idempotency=NULL, root_refs=NULL, root_text=NULL, mark=?, body=? WHERE n=?',
  );
  const deleted: CheckpointId[] = [];
  for (const { id, body } of deletions) {
    const row = isBindable(id) ? (select.get(id) as LiveColumns | undefined) : undefined;
    if (row === undefined || !holders.release(row.session, id, options.force)) continue;
    const check = tombstoneCheck({ id, digest: unpackDigest(row.digest), body });
    // A tombstone is found by what its own record says, as every other checkpoint is.
    const columns = Object.values(filedUnder(JSON.parse(body) as Partial<CheckpointHeader>));
    bury.run(...columns, check, options.encodeText(body), row.n);
    removeLog(connection, row.session, id);
    deleted.push(id);
  }
  return deleted;
}

/** What was filed under a checkpoint goes with it. */
function removeLog(connection: SqliteConnection, session: number, id: CheckpointId): void {
  const { changes } = connection.prepare('DELETE FROM effect WHERE session=? AND branch=?').run(session, id);
  if (Number(changes) === 0) return;
  connection.prepare("DELETE FROM ref WHERE session=? AND kind='log' AND name=?").run(session, id);
  noteReuse(connection);
}

/** Numbers of removed rows are used again, so a collector must not trust "greater than what I have seen" any more. */
function noteReuse(connection: SqliteConnection): void {
  connection.prepare('UPDATE epoch SET value=value+1 WHERE n=1').run();
}

/** Who points at what. Each session's refs are read once, however many of its checkpoints are to be deleted. */
class Holders {
  readonly #connection: SqliteConnection;
  readonly #bySession = new Map<number, Map<string, Holder[]>>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  /** Whether no ref protects the checkpoint (any more); then all that point at it are removed. With `force` nothing protects. */
  release(session: number, id: CheckpointId, force: boolean): boolean {
    const holders = this.#of(session).get(id) ?? [];
    if (!force && holders.some(({ kind }) => isProtecting(kind))) return false;
    const remove = this.#connection.prepare('DELETE FROM ref WHERE session=? AND kind=? AND name=?');
    for (const { kind, name } of holders) remove.run(session, kind, name);
    return true;
  }

  #of(session: number): Map<string, Holder[]> {
    let byTarget = this.#bySession.get(session);
    if (byTarget === undefined) {
      const rows = this.#connection.prepare('SELECT kind, name, target FROM ref WHERE session=?').all(session);
      byTarget = groupByTarget(rows as (Holder & { target: string })[]);
      this.#bySession.set(session, byTarget);
    }
    return byTarget;
  }
}

function groupByTarget(rows: readonly (Holder & { target: string })[]): Map<string, Holder[]> {
  const groups = new Map<string, Holder[]>();
  for (const row of rows) {
    const group = groups.get(row.target);
    if (group === undefined) groups.set(row.target, [row]);
    else group.push(row);
  }
  return groups;
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
  const refs = connection.prepare('SELECT kind, name, target FROM ref WHERE session=?').all(row.n);
  if (ifRefs !== undefined && !areSameRefs(refs as Ref[], ifRefs)) return false;
  for (const table of ['checkpoint', 'effect', 'ref'])
    connection.prepare(`DELETE FROM ${table} WHERE session=?`).run(row.n);
  connection.prepare('DELETE FROM session WHERE n=?').run(row.n);
  noteReuse(connection);
  return true;
}
