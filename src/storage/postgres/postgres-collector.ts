import { CorruptError } from '../../core/errors.ts';
import type { CollectResult } from '../contract.ts';
import type { Query } from '../database/postgres-database.ts';
import { BY_INDEX, RowPages } from './row-pages.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';

/** What is reachable, in the order it was found in: what one refers to is looked for later. */
const REACHED = [
  'CREATE TEMPORARY TABLE reached(n bigint GENERATED ALWAYS AS IDENTITY, digest bytea PRIMARY KEY) ON COMMIT DROP',
  'CREATE INDEX reached_n ON reached(n)',
];

/** Rows with lists of references (`refs`), by the columns that they are sorted by; `what` names one. `start` is before all. */
type Source = { readonly key: readonly string[]; readonly start: readonly unknown[]; readonly rows: string };

const CHECKPOINTS: Source = {
  key: ['id'],
  start: [''],
  rows: "SELECT id, root_refs AS refs, 'checkpoint ' || id AS what FROM {s}.checkpoint WHERE tenant = $1 AND id > $2",
};

const EFFECTS: Source = {
  key: ['session', 'branch', 'ordinal'],
  start: ['', '', -1],
  rows: "SELECT session, branch, ordinal, refs, 'an effect of session ' || session AS what FROM {s}.effect WHERE tenant = $1 AND (session, branch, ordinal) > ($2, $3, $4)",
};

const CHUNKS: Source = {
  key: ['n'],
  start: [0],
  rows: "SELECT n, (SELECT refs FROM {s}.chunk c WHERE c.tenant = $1 AND c.digest = reached.digest) AS refs, 'chunk ' || encode(digest, 'hex') AS what FROM reached WHERE n > $2",
};

type Doomed = { readonly last: string; readonly digests: readonly string[]; readonly stored: readonly string[] };

/** Which of the chunks after a digest nothing needs; `last` is where the look ended. */
const judged = (limit: number): string => `WITH page AS MATERIALIZED (
    SELECT digest, stored FROM {s}.chunk WHERE tenant = $1 AND digest > decode($2, 'hex') ORDER BY digest LIMIT ${limit}
  ), judged AS (
    SELECT encode(digest, 'hex') COLLATE "C" AS digest, stored,
      (stored < pg_snapshot_xmin(pg_current_snapshot())::text::bigint OR stored >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
        AND NOT EXISTS (SELECT FROM reached WHERE reached.digest = page.digest) AS doomed FROM page
  ) SELECT max(digest) AS last, coalesce(array_agg(digest) FILTER (WHERE doomed), '{}') AS digests,
      coalesce(array_agg(stored::text) FILTER (WHERE doomed), '{}') AS stored FROM judged HAVING count(*) > 0`;

/**
 * Removes chunks that nothing reaches, beside commits of any process.
 *
 * Every chunk bears the number of the transaction that last brought it. The collector marks what is reachable in one snapshot, which
 * also says which transactions were all over. An unmarked chunk whose transaction was over by then cannot be needed: a later commit
 * may use chunks it does not bring only if a checkpoint reaches them that was alive in the snapshot, or was made since. A commit that
 * brings a doomed chunk again changes its number under the same row lock that the deletion needs, which then leaves it alone.
 * A number from the future is that of another server, from which the rows were copied: its transactions are over, too.
 */
export class PostgresCollector {
  readonly #connection: PostgresConnection;
  readonly #pages: RowPages;

  constructor(connection: PostgresConnection, signal?: AbortSignal) {
    this.#connection = connection;
    this.#pages = new RowPages(signal);
  }

  async run(): Promise<CollectResult> {
    return this.#connection.transactOnSnapshot(async (query) => {
      for (const sql of [BY_INDEX, ...REACHED]) await query(sql);
      for (const source of [CHECKPOINTS, EFFECTS, CHUNKS]) await this.#mark(query, source);
      return this.#sweep(query);
    });
  }

  /** Marks what rows refer to. A damaged list of references hides what is needed: then nothing may be removed. */
  async #mark(query: Query, { key, start, rows }: Source): Promise<void> {
    const newest = key.map((column) => `${column} DESC`).join(', ');
    const sql = (
      limit: number,
    ) => `WITH page AS MATERIALIZED (${rows} ORDER BY ${key.join(', ')} LIMIT ${limit}), marked AS (
        INSERT INTO reached(digest) SELECT substring(refs FROM at + 1 FOR 32)
          FROM page CROSS JOIN LATERAL generate_series(0, length(refs) - 32, 32) AS at ON CONFLICT DO NOTHING
      ) SELECT ${key.join(', ')}, (SELECT what FROM page WHERE length(refs) % 32 <> 0 LIMIT 1) AS damaged
        FROM page ORDER BY ${newest} LIMIT 1`;
    const values = [this.#connection.tenant];
    for await (const { damaged } of this.#pages.read(query, { sql, values, key, start }))
      if (typeof damaged === 'string')
        throw new CorruptError(`Nothing was collected: the references of ${damaged} are damaged. Run verify.`);
  }

  /** Deletes outside the marking transaction, a few at a time. */
  async #sweep(query: Query): Promise<CollectResult> {
    let chunks = 0;
    let bytes = 0;
    const values = [this.#connection.tenant];
    for await (const doomed of this.#pages.read<Doomed>(query, { sql: judged, values, key: ['last'], start: [''] }))
      for (const size of await this.#remove(doomed)) {
        chunks++;
        bytes += size;
      }
    return { chunks, bytes };
  }

  /** The sizes of the rows that were deleted. */
  async #remove({ digests, stored }: Doomed): Promise<number[]> {
    if (digests.length === 0) return [];
    return this.#connection.transact(async (query) => {
      await query(BY_INDEX);
      const rows = await query<{ bytes: number }>(
        `WITH locked AS MATERIALIZED (
           SELECT digest, stored FROM {s}.chunk WHERE tenant = $1 AND digest = ANY($2::bytea[]) ORDER BY digest FOR UPDATE
         ) DELETE FROM {s}.chunk c WHERE tenant = $1 AND digest = ANY(ARRAY(
           SELECT digest FROM locked JOIN unnest($2::bytea[], $3::bigint[]) AS doomed(digest, stored) USING (digest, stored)
         )) RETURNING pg_column_size(c.*) AS bytes`,
        [this.#connection.tenant, digests.map((digest) => `\\x${digest}`), stored],
      );
      return rows.map(({ bytes }) => bytes);
    });
  }
}
