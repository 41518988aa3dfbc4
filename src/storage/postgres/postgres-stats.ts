import type { StorageStats } from '../contract.ts';
import { askPages, BY_INDEX, RowPages, TABLES } from './row-pages.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';

const COUNTS = ['count(*)', 'count(*) FILTER (WHERE gone)', 'sum(size)']
  .map((count, at) => `(SELECT (${count})::double precision FROM page) AS ${['rows', 'deleted', 'bytes'][at]}`)
  .join(', ');

/** Counts the rows of the tenant as of one moment, some at a time. */
export async function countRows(connection: PostgresConnection): Promise<StorageStats> {
  const { tenant } = connection;
  const pages = new RowPages();
  return connection.transactOnSnapshot(async (query) => {
    await query(BY_INDEX);
    const rows = { session: 0, chunk: 0, checkpoint: 0, effect: 0, ref: 0 };
    let [tombstones, bytes] = [0, 0];
    for (const name of Object.keys(rows) as (keyof typeof rows)[]) {
      const row = `pg_column_size(t.*) AS size, ${name === 'checkpoint' ? 'deleted' : 'false'} AS gone`;
      const asked = askPages(TABLES[name], { tenant, row, page: COUNTS });
      for await (const page of pages.read<{ rows: number; deleted: number; bytes: number }>(query, asked)) {
        rows[name] += page.rows;
        tombstones += page.deleted;
        bytes += page.bytes;
      }
    }
    return { checkpoints: rows.checkpoint - tombstones, tombstones, chunks: rows.chunk, sessions: rows.session, bytes };
  });
}
