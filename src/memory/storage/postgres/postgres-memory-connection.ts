import type pg from 'pg';
import { ClosedError, InvalidInputError, UnsupportedError } from '../../../core/errors.ts';
import { loadPg } from '../../../storage/postgres/database/load-pg.ts';
import { isConnectionLoss, toSavestateError } from '../../../storage/postgres/database/postgres-error.ts';
import type { PostgresPool } from '../../../storage/postgres/database/postgres-pool.ts';
import { withRetries } from '../../../storage/postgres/database/retry.ts';
import { SCHEMA, SCHEMA_VERSION } from './postgres-memory-schema.ts';

/** How memories on a PostgreSQL server are opened: by a connection string, or on a pool that you keep yourself. */
export type PostgresMemoryOptions = {
  readonly connectionString?: string;
  /** A pool of the `pg` package. It stays open when the memory is closed. */
  readonly pool?: PostgresPool;
  /** Where the tables are; default `savestate_memory`. Made at the first use if it is missing. */
  readonly schema?: string;
  /** Whose memories these are; nothing of other tenants is read or changed. */
  readonly tenant: string;
  /** How long a call is tried again while the server cannot be reached; default 10 s. */
  readonly retryForMs?: number;
};

type Row = Readonly<Record<string, unknown>>;

/** Sends one statement. `{s}` in its text stands for the schema. */
export type Query = <Result extends Row>(sql: string, values?: readonly unknown[]) => Promise<Result[]>;

/** How a transaction ended; `lost` when the connection died before its end was told. */
type Outcome<Result> = { readonly result: Result } | { readonly lost: unknown };

const DEFAULT_RETRY_MS = 10_000;
const MAX_CONNECTIONS = 5;
const CONNECT_TIMEOUT_MS = 5_000;

/** Connections to one schema; the tables are made at the first use. */
export class PostgresMemoryConnection {
  readonly #options: PostgresMemoryOptions;
  readonly #schema: string;
  readonly #place: string;
  #pool: pg.Pool | undefined;
  #opening: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: PostgresMemoryOptions) {
    const { pool, connectionString, schema = 'savestate_memory' } = options;
    if ((pool === undefined) === (connectionString === undefined))
      throw new InvalidInputError('PostgresMemoryStorage needs either a connectionString or a pool.');
    this.#options = options;
    this.#schema = `"${schema.replaceAll('"', '""')}"`;
    this.#place = `The PostgreSQL schema "${schema}"`;
  }

  /** Reads with one statement. */
  async read<Result extends Row>(sql: string, values: readonly unknown[] = []): Promise<Result[]> {
    return this.#retry(async (pool) => {
      await this.#open(pool);
      const { rows } = await pool.query<Result>({ text: this.#sql(sql), values: [...values] });
      return rows;
    });
  }

  /**
   * Runs several statements as one transaction. Writers of a schema take turns, so that the numbers of events grow in the order in
   * which they become visible: whoever has read one has read all before it.
   */
  async write<Result>(work: (query: Query) => Promise<Result>): Promise<Result> {
    const outcome = await this.#retry(async (pool) => {
      await this.#open(pool);
      return this.#transact(pool, work);
    });
    // Not tried again: it may be stored, and would then be stored twice.
    if ('lost' in outcome) throw toSavestateError(outcome.lost, { place: this.#place, isOutcomeUnknown: true });
    return outcome.result;
  }

  async #transact<Result>(pool: pg.Pool, work: (query: Query) => Promise<Result>): Promise<Outcome<Result>> {
    const client = await pool.connect();
    const query: Query = async <Found extends Row>(sql: string, values: readonly unknown[] = []) =>
      (await client.query<Found>({ text: this.#sql(sql), values: [...values] })).rows;
    let failure: Error | undefined;
    let isCommitting = false;
    try {
      await client.query('BEGIN');
      await client.query('SELECT pg_advisory_xact_lock(hashtext($1))', [`savestate memory ${this.#schema}`]);
      const result = await work(query);
      isCommitting = true;
      await client.query('COMMIT');
      return { result };
    } catch (error) {
      failure = error as Error;
      if (isCommitting && isConnectionLoss(error)) return { lost: error };
      await client.query('ROLLBACK').catch(() => undefined); // the first error is the one to report
      throw error;
    } finally {
      client.release(failure !== undefined);
    }
  }

  async #open(pool: pg.Pool): Promise<void> {
    this.#opening ??= this.#prepare(pool).catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /** Making tables twice does no harm, so this may be repeated whatever happened. */
  async #prepare(pool: pg.Pool): Promise<void> {
    const outcome = await this.#transact(pool, (query) => this.#migrate(query));
    if ('lost' in outcome) throw outcome.lost;
  }

  async #migrate(query: Query): Promise<void> {
    await query('CREATE SCHEMA IF NOT EXISTS {s}');
    const [found] = await query<{ exists: boolean }>("SELECT to_regclass('{s}.memory_version') IS NOT NULL AS exists");
    if (found?.exists !== true) {
      for (const statement of SCHEMA) await query(statement);
      await query('INSERT INTO {s}.memory_version VALUES ($1)', [SCHEMA_VERSION]);
    }
    const [row] = await query<{ version: number }>('SELECT max(version) AS version FROM {s}.memory_version');
    if (row?.version === SCHEMA_VERSION) return;
    throw new UnsupportedError(
      `${this.#place} has memory tables of version ${row?.version}; this release knows version ${SCHEMA_VERSION}. Update savestate to use it.`,
    );
  }

  #sql(text: string): string {
    return text.replaceAll('{s}', () => this.#schema);
  }

  async #retry<Result>(attempt: (pool: pg.Pool) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) throw new ClosedError(`${this.#place} was closed as a memory.`);
    const { retryForMs = DEFAULT_RETRY_MS } = this.#options;
    try {
      this.#pool ??= this.#createPool();
      const pool = this.#pool;
      return await withRetries(() => attempt(pool), { forMs: retryForMs });
    } catch (error) {
      throw toSavestateError(error, { place: this.#place });
    }
  }

  #createPool(): pg.Pool {
    const { pool, connectionString } = this.#options;
    if (pool !== undefined) return pool as pg.Pool;
    const own = new (loadPg().Pool)({
      connectionString,
      max: MAX_CONNECTIONS,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      application_name: 'savestate memory',
    });
    own.on('error', () => undefined); // an idle connection that ends is replaced when one is needed
    return own;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#options.pool === undefined && this.#pool !== undefined) await this.#pool.end();
  }
}
