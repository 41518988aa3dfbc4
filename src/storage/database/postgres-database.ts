import { createRequire } from 'node:module';
import type pg from 'pg';
import { ClosedError, codeOf, UnsupportedError } from '../../core/errors.ts';
import { Connections } from './connections.ts';
import { isOutcomeUnknown, toSavestateError } from './postgres-error.ts';
import { answerOf, type Doubt, withRetries } from './retry.ts';
import type { ServerOptions } from './server-options.ts';

/** A row as the client gives it. */
export type Row = Readonly<Record<string, unknown>>;

/** Sends one statement of a transaction. `{s}` in its text stands for the schema. */
export type Query = <Result extends Row>(sql: string, values?: readonly unknown[]) => Promise<Result[]>;

type Limits = { readonly query_timeout: number };

const DEFAULT_MAX_CONNECTIONS = 10;
const DEFAULT_TIMEOUT_MS = 30_000;
const CONNECT_TIMEOUT_MS = 5_000;
const DEFAULT_RETRY_MS = 30_000;
const FIRST_RETRY_MS = 3_000;

/** Connections to one schema. Calls are tried again while the server cannot be reached; errors are of our own kind. */
export abstract class PostgresDatabase {
  readonly schema: string;
  readonly place: string;
  readonly #pool: pg.Pool;
  readonly #connections: Connections;
  readonly #options: ServerOptions;
  readonly #limits: Limits;
  #opening: Promise<void> | undefined;
  #hasConnected = false;
  #isClosed = false;

  constructor(options: ServerOptions, schema: string) {
    const { pool, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    this.#options = options;
    this.schema = schema;
    this.#limits = { query_timeout: timeoutMs };
    this.#pool = (pool as pg.Pool | undefined) ?? createPool(options);
    this.#connections = new Connections(this.#pool, { timeoutMs, isOwn: pool === undefined });
    this.place = describePlace(this.#pool, schema);
  }

  /** Makes or checks the tables. Done once, or again if it failed. @internal */
  protected abstract setUp(client: pg.PoolClient): Promise<void>;

  /** Settings that every transaction starts with, and that end with it. */
  protected get settings(): readonly (readonly [name: string, value: string])[] {
    return [];
  }

  /** The statement with the schema's name in it. */
  sql(text: string): string {
    return text.replaceAll('{s}', () => quoteIdentifier(this.schema));
  }

  /** A wrong address is told soon: only a server that was there before is waited for. */
  get retryForMs(): number {
    return this.#options.retryForMs ?? (this.#hasConnected ? DEFAULT_RETRY_MS : FIRST_RETRY_MS);
  }

  async #open(): Promise<void> {
    if (this.#isClosed) throw new ClosedError(`The storage ${this.place} was closed.`);
    this.#opening ??= this.#connections
      .use((client) => this.setUp(client))
      .then(() => {
        this.#hasConnected = true;
      })
      .catch((error: unknown) => {
        this.#opening = undefined;
        throw error;
      });
    return this.#opening;
  }

  /** Reads in one transaction, which on our own connections is one round trip. */
  async read<Result extends Row>(sql: string, values: readonly unknown[] = []): Promise<Result[]> {
    return this.#retry({ exists: false }, async (client) => {
      if (!client.pipeline) return this.transactOn(client, (query) => query<Result>(sql, values));
      const statement = { text: this.sql(sql), values: [...values] };
      const sent = [{ text: this.#begin('READ ONLY') }, statement, { text: 'COMMIT' }].map((one) =>
        client.query({ ...one, ...this.#limits }),
      );
      await Promise.allSettled(sent); // the connection is given back when it has said all, also after a failure
      const [, answer] = await Promise.all(sent);
      return (answer as pg.QueryResult<Result>).rows;
    });
  }

  /** Runs several statements as one transaction. Tried again as a whole, so that `work` may run more than once. */
  async transact<Result>(work: (query: Query) => Promise<Result>, doubt: Doubt = { exists: false }): Promise<Result> {
    return this.#retry(doubt, (client) => this.transactOn(client, work, { doubt }));
  }

  /** The same where all statements see the tables as they are now, so that a look at many rows can be many short statements. */
  async transactOnSnapshot<Result>(work: (query: Query) => Promise<Result>): Promise<Result> {
    const mode = 'ISOLATION LEVEL REPEATABLE READ';
    return this.#retry({ exists: false }, (client) => this.transactOn(client, work, { mode }));
  }

  /** Runs a transaction on a connection that was lent. @internal */
  protected async transactOn<Result>(
    client: pg.PoolClient,
    work: (query: Query) => Promise<Result>,
    { mode = '', doubt = { exists: false } }: { readonly mode?: string; readonly doubt?: Doubt } = {},
  ): Promise<Result> {
    const query: Query = async <Found extends Row>(sql: string, values: readonly unknown[] = []) =>
      (await client.query<Found>({ text: this.sql(sql), values: [...values], ...this.#limits })).rows;
    await query(this.#begin(mode));
    try {
      const result = await work(query);
      await answerOf(query('COMMIT'), doubt);
      return result;
    } catch (error) {
      if (!isOutcomeUnknown(error)) await rollBack(client, this.#limits);
      throw error;
    }
  }

  /** Sends one statement that is a transaction of its own; it is asked for once the tables are there. @internal */
  protected async send<Result extends Row>(statement: () => pg.QueryConfig, doubt: Doubt): Promise<Result[]> {
    return this.#retry(doubt, async (client) => {
      const sent = client.query<Result>({ ...statement(), ...this.#limits });
      return (await answerOf(sent, doubt)).rows;
    });
  }

  /** A connection outside the pool, for listening. @internal */
  createClient(): pg.Client {
    const { pool, connectionString } = this.#options;
    return new (loadPg().Client)({
      ...(pool === undefined ? { connectionString } : this.#pool.options),
      application_name: 'savestate listener',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connections.close();
    if (this.#options.pool === undefined) await this.#pool.end();
  }

  /** Settings are local to the transaction: the next one on this connection starts from nothing. */
  #begin(mode: string): string {
    const { escapeLiteral } = loadPg();
    const calls = this.settings.map(
      ([name, value]) => `set_config(${escapeLiteral(name)}, ${escapeLiteral(value)}, true)`,
    );
    return `BEGIN ${mode}${calls.length === 0 ? '' : `; SELECT ${calls.join(', ')}`}`;
  }

  async #retry<Result>(doubt: Doubt, attempt: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
    const attemptOnce = async () => {
      await this.#open();
      return this.#connections.use(attempt);
    };
    try {
      return await withRetries(attemptOnce, { forMs: this.retryForMs, doubt });
    } catch (error) {
      if (error instanceof Error && error.name === 'AbortError') throw error; // the caller's own wish
      throw toSavestateError(error, { place: this.place, isOutcomeUnknown: doubt.exists });
    }
  }
}

/** An identifier as SQL text. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Leaves the connection as it was found. One that cannot do even that is of no use to the next one either. */
async function rollBack(client: pg.PoolClient, limits: Limits): Promise<void> {
  await client.query({ text: 'ROLLBACK', ...limits });
}

function createPool({
  connectionString,
  maxConnections = DEFAULT_MAX_CONNECTIONS,
  timeoutMs = DEFAULT_TIMEOUT_MS,
}: ServerOptions): pg.Pool {
  const pool = new (loadPg().Pool)({
    connectionString,
    max: maxConnections,
    pipeline: true,
    keepAlive: true,
    connectionTimeoutMillis: Math.min(CONNECT_TIMEOUT_MS, timeoutMs),
    query_timeout: timeoutMs,
    application_name: 'savestate',
    allowExitOnIdle: true,
  });
  pool.on('error', () => undefined); // an idle connection ended; the next call makes a new one
  pool.on('connect', (client) => client.on('error', () => undefined)); // its end may come with the answer that it is open
  return pool;
}

/** Names the server in messages, without the password. */
function describePlace({ options }: pg.Pool, schema: string): string {
  const { host, port, database } = new (loadPg().Client)(options);
  return `PostgreSQL at ${host}:${port}/${database}, schema "${schema}"`;
}

const require = createRequire(import.meta.url);

/** The package `pg`, which is loaded when a connection is made; an UnsupportedError that says what to install if it is not there. @internal */
export function loadPg(): typeof pg {
  try {
    return require('pg') as typeof pg;
  } catch (cause) {
    if (codeOf(cause) !== 'MODULE_NOT_FOUND') throw cause;
    throw new UnsupportedError('PostgreSQL needs the package pg. Install it: npm install pg', { cause });
  }
}
