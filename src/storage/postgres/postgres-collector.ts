import { CorruptError } from '../../core/errors.ts';
import type { CollectResult } from '../contract.ts';
import type { Query } from '../database/postgres-database.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';

/** Chunks deleted by one transaction; commits that bring one of them wait for it. */
const DELETE_BATCH = 1_000;

/**
 * Marking goes level by level. A plan that reads all chunks at every level takes for ever on deep trees; the planner chooses one when its
 * statistics are from a time when there were few chunks, and the function keeps it.
 */
const BY_INDEX = `SELECT ${['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'].map((name) => `set_config('${name}', 'off', true)`).join(', ')}`;

type Doomed = { readonly digest: string; readonly stored: string };

/**
 * Removes chunks that nothing reaches, beside commits of any process.
 *
 * Every chunk bears the number of the transaction that last brought it. The collector first asks which transactions are all over, then
 * marks what is reachable from one later snapshot. An unmarked chunk whose transaction was over by then cannot be needed: a later commit
 * may use chunks it does not bring only if a checkpoint reaches them that was alive in the snapshot, or was made since. A commit that
 * brings a doomed chunk again changes its number under the same row lock that the deletion needs, which then leaves it alone.
 * A number from the future is that of another server, from which the rows were copied: its transactions are over, too.
 */
export class PostgresCollector {
  readonly #connection: PostgresConnection;
  readonly #signal: AbortSignal | undefined;

  constructor(connection: PostgresConnection, signal?: AbortSignal) {
    this.#connection = connection;
    this.#signal = signal;
  }

  async run(): Promise<CollectResult> {
    return this.#connection.transact(async (query) => {
      await query(BY_INDEX);
      const [row] = await query<{ floor: string }>('SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS floor');
      await this.#checkRefs(query);
      await query('SELECT {s}.mark_reached($1)', [this.#connection.tenant]);
      this.#signal?.throwIfAborted();
      return this.#sweep(query, row?.floor ?? '0');
    });
  }

  /** A damaged list of references hides what is needed: then nothing may be removed. */
  async #checkRefs(query: Query): Promise<void> {
    const [row] = await query<{ what: string }>(
      `SELECT 'checkpoint ' || id AS what FROM {s}.checkpoint WHERE tenant = $1 AND length(root_refs) % 32 <> 0
       UNION ALL SELECT 'an effect of session ' || session FROM {s}.effect WHERE tenant = $1 AND length(refs) % 32 <> 0
       UNION ALL SELECT 'chunk ' || encode(digest, 'hex') FROM {s}.chunk WHERE tenant = $1 AND length(refs) % 32 <> 0 LIMIT 1`,
      [this.#connection.tenant],
    );
    if (row === undefined) return;
    throw new CorruptError(`Nothing was collected: the references of ${row.what} are damaged. Run verify.`);
  }

  /** Deletes outside the marking transaction, a few at a time, so that commits never wait long. */
  async #sweep(query: Query, floor: string): Promise<CollectResult> {
    let chunks = 0;
    let bytes = 0;
    for (let after = ''; ; ) {
      this.#signal?.throwIfAborted();
      const doomed = await this.#readDoomed(query, floor, after);
      const last = doomed.at(-1);
      if (last === undefined) return { chunks, bytes };
      for (const size of await this.#remove(doomed)) {
        chunks++;
        bytes += size;
      }
      after = last.digest;
    }
  }

  async #readDoomed(query: Query, floor: string, after: string): Promise<Doomed[]> {
    const sql = `SELECT encode(c.digest, 'hex') AS digest, c.stored::text AS stored FROM {s}.chunk c
      WHERE c.tenant = $1 AND c.digest > decode($3, 'hex')
        AND (c.stored < $2::bigint OR c.stored >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
        AND NOT EXISTS (SELECT FROM reached WHERE reached.digest = c.digest) ORDER BY c.digest LIMIT ${DELETE_BATCH}`;
    return query<Doomed>(sql, [this.#connection.tenant, floor, after]);
  }

  /** The sizes of the rows that were deleted. */
  async #remove(doomed: readonly Doomed[]): Promise<number[]> {
    return this.#connection.transact(async (query) => {
      const rows = await query<{ bytes: number }>(
        `WITH doomed AS (
           SELECT c.digest, c.stored FROM {s}.chunk c JOIN unnest($2::text[], $3::bigint[]) AS d(digest, stored)
             ON c.digest = decode(d.digest, 'hex') AND c.stored = d.stored WHERE c.tenant = $1 ORDER BY c.digest FOR UPDATE OF c
         ) DELETE FROM {s}.chunk c USING doomed WHERE c.tenant = $1 AND c.digest = doomed.digest AND c.stored = doomed.stored
         RETURNING pg_column_size(c.*) AS bytes`,
        [this.#connection.tenant, doomed.map(({ digest }) => digest), doomed.map(({ stored }) => stored)],
      );
      return rows.map(({ bytes }) => bytes);
    });
  }
}
