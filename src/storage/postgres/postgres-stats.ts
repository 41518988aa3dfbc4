import type { StorageStats } from '../contract.ts';
import type { Query } from '../database/postgres-database.ts';
import { BY_INDEX, RowPages } from './row-pages.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';

/** A table with the columns that its rows are sorted by, after the tenant; `start` is before all. */
type Table = {
  readonly name: string;
  readonly key: readonly string[];
  readonly start: readonly unknown[];
  readonly deleted?: string;
};

const SESSION: Table = { name: 'session', key: ['name'], start: [''] };
const CHUNK: Table = { name: 'chunk', key: ['digest'], start: [Buffer.alloc(0)] };
const CHECKPOINT: Table = { name: 'checkpoint', key: ['id'], start: [''], deleted: 'deleted' };
const EFFECT: Table = { name: 'effect', key: ['session', 'branch', 'ordinal'], start: ['', '', -1] };
const REF: Table = { name: 'ref', key: ['session', 'kind', 'name'], start: ['', '', ''] };

/** What is counted of a table. */
type Count = { readonly rows: number; readonly deleted: number; readonly bytes: number };

/** Counts the rows of the tenant as of one moment, some at a time. */
export async function countRows(connection: PostgresConnection): Promise<StorageStats> {
  const pages = new RowPages();
  return connection.transactOnSnapshot(async (query) => {
    await query(BY_INDEX);
    const count = (table: Table) => countTable(query, pages, { ...table, tenant: connection.tenant });
    const [sessions, chunks, checkpoints] = [await count(SESSION), await count(CHUNK), await count(CHECKPOINT)];
    const others = [await count(EFFECT), await count(REF)];
    return {
      checkpoints: checkpoints.rows - checkpoints.deleted,
      tombstones: checkpoints.deleted,
      chunks: chunks.rows,
      sessions: sessions.rows,
      bytes: [chunks, checkpoints, ...others].reduce((sum, { bytes }) => sum + bytes, 0),
    };
  });
}

type Counting = Table & { readonly tenant: string };

async function countTable(query: Query, pages: RowPages, table: Counting): Promise<Count> {
  const { name, key, start, tenant, deleted = 'false' } = table;
  const columns = key.join(', ');
  const after = `(${columns}) > (${key.map((_, at) => `$${at + 2}`).join(', ')})`;
  const sql = (limit: number) => `WITH page AS MATERIALIZED (
      SELECT ${columns}, pg_column_size(t.*) AS size, ${deleted} AS gone FROM {s}.${name} t WHERE tenant = $1 AND ${after} ORDER BY ${columns} LIMIT ${limit}
    ), counted AS (
      SELECT count(*)::double precision AS rows, (count(*) FILTER (WHERE gone))::double precision AS deleted, sum(size)::double precision AS bytes FROM page
    ) SELECT ${columns}, counted.* FROM page, counted ORDER BY ${key.map((column) => `${column} DESC`).join(', ')} LIMIT 1`;
  const total = { rows: 0, deleted: 0, bytes: 0 };
  for await (const page of pages.read<Count>(query, { sql, values: [tenant], key, start })) {
    total.rows += page.rows;
    total.deleted += page.deleted;
    total.bytes += page.bytes;
  }
  return total;
}
