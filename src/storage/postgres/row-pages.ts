import { performance } from 'node:perf_hooks';
import type { Query, Row } from '../database/postgres-database.ts';

const FEWEST_ROWS = 10;
const FIRST_ROWS = 100;
const MOST_ROWS = 1_000;
/** Other statements wait for a core, and commits for rows, no longer than about this. */
const AIM_MS = 500;

/** Rows are found by their keys. The planner knows nothing of a table that is being filled, and would rather read all rows each time. */
export const BY_INDEX = `SELECT ${['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'].map((name) => `set_config('${name}', 'off', true)`).join(', ')}`;

/** Rows in the order of the columns of their key; `start` is before all of them. `$1` is the tenant. */
export type Table = { readonly from: string; readonly key: readonly string[]; readonly start: readonly unknown[] };

/** The rows of a tenant in the tables of a schema. */
export const TABLES = {
  session: tableOf('session', { name: '' }),
  chunk: tableOf('chunk', { digest: Buffer.alloc(0) }),
  checkpoint: tableOf('checkpoint', { id: '' }),
  effect: tableOf('effect', { session: '', branch: '', ordinal: -1 }),
  ref: tableOf('ref', { session: '', kind: '', name: '' }),
};

function tableOf(name: string, first: Readonly<Record<string, unknown>>): Table {
  return { from: `{s}.${name} t WHERE tenant = $1`, key: Object.keys(first), start: Object.values(first) };
}

/** What is asked of each page: of its rows, in steps after the one that is called `page`, and of it as a whole. */
type Question = { readonly tenant: string; readonly row: string; readonly steps?: string; readonly page: string };

/** A statement that asks something of the next rows of a table. */
export function askPages({ from, key, start }: Table, { tenant, row, steps = '', page }: Question): PageSource {
  const columns = key.join(', ');
  const after = `(${columns}) > (${key.map((_, at) => `$${at + 2}`).join(', ')})`;
  const sql = (limit: number) => `WITH page AS MATERIALIZED (
      SELECT ${columns}, ${row} FROM ${from} AND ${after} ORDER BY ${columns} LIMIT ${limit}
    )${steps} SELECT ${columns}, ${page} FROM page ORDER BY ${key.map((column) => `${column} DESC`).join(', ')} LIMIT 1`;
  return { sql, values: [tenant], key, start };
}

/** A statement for a page: it returns one row, or none at the end; its last parameters are the `key` of the page before, or `start`. */
type PageSource = Pick<Table, 'key' | 'start'> & {
  readonly sql: (rows: number) => string;
  readonly values: readonly unknown[];
};

/** Sends statements that each look at the next few rows: so few that none takes long, however many rows there are or busy the server is. */
export class RowPages {
  readonly #now: () => number;
  readonly #signal: AbortSignal | undefined;
  #most = MOST_ROWS;

  constructor(signal?: AbortSignal, now: () => number = () => performance.now()) {
    this.#signal = signal;
    this.#now = now;
  }

  /** The answer for each page, until there is none: a row with what `key` names, where the next page begins. */
  async *read<Page extends Row>(query: Query, { sql, values, key, start }: PageSource): AsyncGenerator<Page> {
    let rows = Math.min(FIRST_ROWS, this.#most);
    for (let after = start; ; ) {
      this.#signal?.throwIfAborted();
      const startedMs = this.#now();
      const [page] = await query<Page>(sql(rows), [...values, ...after]).catch((error: unknown) => {
        this.#most = Math.max(FEWEST_ROWS, Math.floor(rows / 2)); // it may have taken too long; a later attempt begins anew
        throw error;
      });
      if (page === undefined) return;
      const tookMs = this.#now() - startedMs;
      if (tookMs > AIM_MS) rows = Math.max(FEWEST_ROWS, Math.floor(rows / 2));
      else if (tookMs < AIM_MS / 4) rows = Math.min(this.#most, rows * 2);
      yield page;
      after = key.map((column) => page[column]);
    }
  }
}
