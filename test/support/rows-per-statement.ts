import pg from 'pg';
import { cleanUpLater } from './clean-up.ts';
import { postgresUrl } from './on-demand.ts';

type Send = (statement: string | pg.QueryConfig, values?: unknown[]) => Promise<pg.QueryResult>;

const ENDS = ['COMMIT', 'ROLLBACK'];

/** A pool that notes how many rows of a schema's tables each statement looked at, as the server counts them. */
export function countingPool(schema: string): { readonly pool: pg.Pool; readonly rowsPerStatement: number[] } {
  const pool = new pg.Pool({ connectionString: postgresUrl(), max: 2 });
  const rowsPerStatement: number[] = [];
  pool.on('error', () => undefined);
  pool.on('connect', (client) => watch(client, { schema, rowsPerStatement }));
  cleanUpLater(() => pool.end());
  return { pool, rowsPerStatement };
}

/** The server counts up inside a transaction, so what a statement adds is its own. */
function watch(client: pg.PoolClient, { schema, rowsPerStatement }: { schema: string; rowsPerStatement: number[] }) {
  const send = client.query.bind(client) as Send;
  const text = `SELECT coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::integer AS count
    FROM pg_stat_xact_user_tables WHERE schemaname = '${schema}'`;
  let before = 0;
  const counting: Send = async (statement, values) => {
    const result = await send(statement, values);
    const word = (typeof statement === 'string' ? statement : statement.text).split(' ', 1)[0] ?? '';
    const count = ENDS.includes(word) ? 0 : (await send(text)).rows[0].count;
    if (![...ENDS, 'BEGIN'].includes(word)) rowsPerStatement.push(count - before);
    before = count;
    return result;
  };
  Object.assign(client, { query: counting });
}
