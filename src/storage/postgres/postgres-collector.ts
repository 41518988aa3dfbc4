import { CorruptError } from '../../core/errors.ts';
import type { CollectResult } from '../contract.ts';
import type { Query } from '../database/postgres-database.ts';
import { askPages, BY_INDEX, RowPages, TABLES, type Table } from './row-pages.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';

/** What is reachable, in the order it was found in: what one refers to is looked for later. */
const REACHED = [
  'CREATE TEMPORARY TABLE reached(n bigint GENERATED ALWAYS AS IDENTITY, digest bytea PRIMARY KEY) ON COMMIT DROP',
  'CREATE INDEX reached_n ON reached(n)',
];

/** Rows with lists of references (`refs`); `what` names one. */
const SOURCES: readonly { readonly table: Table; readonly refs: string; readonly what: string }[] = [
  { table: TABLES.checkpoint, refs: 'root_refs', what: "'checkpoint ' || id" },
  { table: TABLES.effect, refs: 'refs', what: "'an effect of session ' || session" },
  {
    table: { from: 'reached WHERE true', key: ['n'], start: [0] },
    refs: '(SELECT refs FROM {s}.chunk c WHERE c.tenant = $1 AND c.digest = reached.digest)',
    what: "'chunk ' || encode(digest, 'hex')",
  },
];

const MARKED = `, marked AS (
    INSERT INTO reached(digest) SELECT substring(refs FROM at + 1 FOR 32)
      FROM page CROSS JOIN LATERAL generate_series(0, length(refs) - 32, 32) AS at ON CONFLICT DO NOTHING
  ) `;

const DAMAGED = '(SELECT what FROM page WHERE length(refs) % 32 <> 0 LIMIT 1) AS damaged';

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

const REMOVE = `WITH locked AS MATERIALIZED (
    SELECT digest, stored FROM {s}.chunk WHERE tenant = $1 AND digest = ANY($2::bytea[]) ORDER BY digest FOR UPDATE
  ) DELETE FROM {s}.chunk c WHERE tenant = $1 AND digest = ANY(ARRAY(
    SELECT digest FROM locked JOIN unnest($2::bytea[], $3::bigint[]) AS doomed(digest, stored) USING (digest, stored)
  )) RETURNING pg_column_size(c.*) AS bytes`;

/**
 * Removes chunks that nothing reaches, beside commits of any process.
 *
 * Every chunk bears the number of the transaction that last brought it. The collector marks what is reachable in one snapshot, which
 * also says which transactions were all over. An unmarked chunk whose transaction was over by then cannot be needed: a later commit
 * may use chunks it does not bring only if a checkpoint reaches them that was alive in the snapshot, or was made since. A commit that
 * brings a doomed chunk again changes its number under the same row lock that the deletion needs, which then leaves it alone.
 * A number from the future is that of another server, from which the rows were copied: its transactions are over, too.
 */
export async function collectChunks(connection: PostgresConnection, signal?: AbortSignal): Promise<CollectResult> {
  const pages = new RowPages(signal);
  const { tenant } = connection;
  return connection.transactOnSnapshot(async (query) => {
    for (const sql of [BY_INDEX, ...REACHED]) await query(sql);
    await mark(query, pages, tenant);
    const source = { sql: judged, values: [tenant], key: ['last'], start: [''] };
    const sizes: number[] = [];
    for await (const doomed of pages.read<Doomed>(query, source))
      for (const { bytes } of await remove(connection, doomed)) sizes.push(bytes);
    return { chunks: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
  });
}

/** Marks what rows refer to. A damaged list of references hides what is needed: then nothing may be removed. */
async function mark(query: Query, pages: RowPages, tenant: string): Promise<void> {
  for (const { table, refs, what } of SOURCES) {
    const row = `${refs} AS refs, ${what} AS what`;
    for await (const { damaged } of pages.read(query, askPages(table, { tenant, row, steps: MARKED, page: DAMAGED })))
      if (typeof damaged === 'string')
        throw new CorruptError(`Nothing was collected: the references of ${damaged} are damaged. Run verify.`);
  }
}

/** Deletes outside the marking transaction, a few at a time. */
async function remove(connection: PostgresConnection, { digests, stored }: Doomed): Promise<{ bytes: number }[]> {
  if (digests.length === 0) return [];
  return connection.transact(async (query) => {
    await query(BY_INDEX);
    return query<{ bytes: number }>(REMOVE, [connection.tenant, digests.map((digest) => `\\x${digest}`), stored]);
  });
}
