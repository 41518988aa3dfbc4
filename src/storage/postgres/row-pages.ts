import { performance } from 'node:perf_hooks';
import type { Query, Row } from '../database/postgres-database.ts';

const FEWEST_ROWS = 10;
const FIRST_ROWS = 100;
const MOST_ROWS = 1_000;
/** Other statements wait for a core, and commits for rows, no longer than about this. */
const AIM_MS = 500;

/** Rows are found by their keys. The planner knows nothing of a table that is being filled, and would rather read all rows each time. */
export const BY_INDEX = `SELECT ${['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'].map((name) => `set_config('${name}', 'off', true)`).join(', ')}`;

/** Sends statements that each look at the next few rows: so few that none takes long, however many rows there are or busy the server is. */
export class RowPages {
  readonly #now: () => number;
  readonly #signal: AbortSignal | undefined;
  #most = MOST_ROWS;

  constructor(signal?: AbortSignal, now: () => number = () => performance.now()) {
    this.#signal = signal;
    this.#now = now;
  }

  /** Each page, until there is none: a row with what `key` names, where the next page begins. */
  async *read<Page extends Row>(query: Query, from: PageSource): AsyncGenerator<Page> {
    let rows = Math.min(FIRST_ROWS, this.#most);
    for (let after = from.start; ; ) {
      const startedMs = this.#now();
      const [page] = await this.#send<Page>(query, from, { rows, after });
      if (page === undefined) return;
      const tookMs = this.#now() - startedMs;
      if (tookMs > AIM_MS) rows = Math.max(FEWEST_ROWS, Math.floor(rows / 2));
      else if (tookMs < AIM_MS / 4) rows = Math.min(this.#most, rows * 2);
      yield page;
      after = from.key.map((column) => page[column]);
    }
  }

  async #send<Page extends Row>(query: Query, from: PageSource, { rows, after }: Next): Promise<Page[]> {
    this.#signal?.throwIfAborted();
    try {
      return await query<Page>(from.sql(rows), [...from.values, ...after]);
    } catch (error) {
      this.#most = Math.max(FEWEST_ROWS, Math.floor(rows / 2)); // it may have taken too long; a later attempt begins anew
      throw error;
    }
  }
}

type Next = { readonly rows: number; readonly after: readonly unknown[] };

/** A statement for a page: it returns one row, or none at the end; its last parameters are the `key` of the page before, or `start`. */
export type PageSource = {
  readonly sql: (rows: number) => string;
  readonly values: readonly unknown[];
  readonly key: readonly string[];
  readonly start: readonly unknown[];
};
