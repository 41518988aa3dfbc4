import type pg from 'pg';
import { ClosedError } from '../../../core/errors.ts';
import { givenOptions } from '../../../core/options.ts';
import { Connections } from './connections.ts';
import { answerOf, type Doubt } from './doubt.ts';
import { loadPg } from './load-pg.ts';
import { isOutcomeUnknown, toSavestateError } from './postgres-error.ts';
import type { PostgresStorageOptions } from './postgres-options.ts';
import { quoteIdentifier, TENANT_SETTING } from './postgres-schema.ts';
import { withRetries } from './retry.ts';
import { type Access, openSchema } from './schema-opening.ts';

/** A row as the client gives it. */
export type Row = Readonly<Record<string, unknown>>;

/** Sends one statement of a transaction. `{s}` in its text stands for the schema. */
export type Query = <Result extends Row>(sql: string, values?: readonly unknown[]) => Promise<Result[]>;

type Limits = { readonly query_timeout: number };

const DEFAULT_TENANT = 'default';
const DEFAULT_MAX_CONNECTIONS = 10;
const DEFAULT_TIMEOUT_MS = 30_000;
const CONNECT_TIMEOUT_MS = 5_000;
const DEFAULT_RETRY_MS = 30_000;
const FIRST_RETRY_MS = 3_000;

/**
 * Connections to one schema as one tenant. Every statement runs in a transaction that says which tenant it is for, and, where the
 * login could see more than that, as the role of the application. What is said to a connection never outlives its transaction.
 */
export class PostgresConnection {
  readonly tenant: string;
  readonly place: string;
  readonly #pool: pg.Pool;
  readonly #connections: Connections;
  readonly #isOwnPool: boolean;
  readonly #options: PostgresStorageOptions;
  readonly #schema: string;
  readonly #timeoutMs: number;
  #opening: Promise<Access> | undefined;
  #hasConnected = false;
  #isClosed = false;

  constructor(options: PostgresStorageOptions) {
    const { pool, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    this.#options = options;
    this.tenant = options.tenant ?? DEFAULT_TENANT;
    this.#schema = options.schema ?? 'savestate';
    this.#timeoutMs = timeoutMs;
    this.#isOwnPool = pool === undefined;
    this.#pool = (pool as pg.Pool | undefined) ?? createPool(options);
    this.#connections = new Connections(this.#pool, timeoutMs);
    this.place = describePlace(this.#pool, this.#schema);
  }

  /** The statement with the schema's name in it. */
  sql(text: string): string {
    return text.replaceAll('{s}', () => quoteIdentifier(this.#schema));
  }

  /** A wrong address is told soon: only a server that was there before is waited for. */
  get retryForMs(): number {
    return this.#options.retryForMs ?? (this.#hasConnected ? DEFAULT_RETRY_MS : FIRST_RETRY_MS);
  }

  get schema(): string {
    return this.#schema;
  }

  /** Makes or checks the schema and finds out what the login may do; once, or again if it failed. */
  async open(): Promise<Access> {
    this.#checkOpen();
    this.#opening ??= openSchema(this.#connections, {
      ...givenOptions(this.#options),
      schema: this.#schema,
      place: this.place,
    }).then(
      (access) => {
        this.#hasConnected = true;
        return access;
      },
      (error: unknown) => {
        this.#opening = undefined;
        throw error;
      },
    );
    return this.#opening;
  }

  /** Reads in one transaction, which on our own connections is one round trip. */
  async read<Result extends Row>(sql: string, values: readonly unknown[] = []): Promise<Result[]> {
    return this.#retry({ exists: false }, (access) =>
      this.#connections.use((client) => this.#readOn<Result>(client, access, { sql, values })),
    );
  }

  async #readOn<Result extends Row>(
    client: pg.PoolClient,
    access: Access,
    { sql, values }: { sql: string; values: readonly unknown[] },
  ): Promise<Result[]> {
    const statements = [
      { text: `BEGIN READ ONLY; ${this.#prelude(access)}` },
      { text: this.sql(sql), values: [...values] },
      { text: 'COMMIT' },
    ];
    const [, answer] = await sendAll(client, statements, this.#limits);
    return (answer as pg.QueryResult<Result>).rows;
  }

  /** Runs several statements as one transaction. Tried again as a whole, so that `work` may run more than once. */
  async transact<Result>(work: (query: Query) => Promise<Result>, doubt: Doubt = { exists: false }): Promise<Result> {
    return this.#retry(doubt, (access) =>
      this.#connections.use(async (client) => {
        const query: Query = async <Found extends Row>(sql: string, values: readonly unknown[] = []) =>
          (await client.query<Found>({ text: this.sql(sql), values: [...values], ...this.#limits })).rows;
        await client.query({ text: `BEGIN; ${this.#prelude(access)}`, ...this.#limits });
        try {
          const result = await work(query);
          await answerOf(client.query({ text: 'COMMIT', ...this.#limits }), doubt);
          return result;
        } catch (error) {
          if (!isOutcomeUnknown(error)) await rollBack(client, this.#limits);
          throw error;
        }
      }),
    );
  }

  /** Calls a function that is a transaction of its own; its first arguments are tenant and role. */
  async call<Result extends Row>(
    statement: { readonly name: string; readonly sql: string },
    values: readonly unknown[],
    doubt: Doubt,
  ): Promise<Result[]> {
    return this.#retry(doubt, (access) =>
      this.#connections.use(async (client) => {
        const sent = client.query<Result>({
          ...(this.#options.prepare !== false && { name: `${statement.name} ${this.#schema}` }),
          text: this.sql(statement.sql),
          values: [this.tenant, access.role ?? null, ...values],
          ...this.#limits,
        });
        return (await answerOf(sent, doubt)).rows;
      }),
    );
  }

  /** A connection outside the pool, for listening. */
  createClient(): pg.Client {
    const config = this.#isOwnPool ? { connectionString: this.#options.connectionString } : this.#pool.options;
    return new (loadPg().Client)({
      ...config,
      application_name: 'savestate listener',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#isOwnPool) await this.#pool.end();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Local to the transaction: the next one on this connection starts from nothing. */
  #prelude({ role }: Access): string {
    const settings = [[TENANT_SETTING, this.tenant], ...(role === undefined ? [] : [['role', role]])];
    const { escapeLiteral } = loadPg();
    const calls = settings.map(
      ([name, value]) => `set_config(${escapeLiteral(name ?? '')}, ${escapeLiteral(value ?? '')}, true)`,
    );
    return `SELECT ${calls.join(', ')}`;
  }

  get #limits(): Limits {
    return { query_timeout: this.#timeoutMs };
  }

  async #retry<Result>(doubt: Doubt, attempt: (access: Access) => Promise<Result>): Promise<Result> {
    try {
      return await withRetries(async () => attempt(await this.open()), { forMs: this.retryForMs });
    } catch (error) {
      if (error instanceof Error && error.name === 'AbortError') throw error; // the caller's own wish
      throw toSavestateError(error, { place: this.place, isOutcomeUnknown: doubt.exists });
    }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError(`The storage on ${this.place} was closed.`);
  }
}

/** Sends statements without waiting for answers in between, where the connection can do that. Throws the first failure. */
async function sendAll(
  client: pg.PoolClient,
  statements: readonly pg.QueryConfig[],
  limits: Limits,
): Promise<pg.QueryResult[]> {
  if (!client.pipeline) return sendInTurn(client, statements, limits);
  const outcomes = await Promise.allSettled(statements.map((statement) => client.query({ ...statement, ...limits })));
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}

async function sendInTurn(
  client: pg.PoolClient,
  statements: readonly pg.QueryConfig[],
  limits: Limits,
): Promise<pg.QueryResult[]> {
  const results: pg.QueryResult[] = [];
  try {
    for (const statement of statements) results.push(await client.query({ ...statement, ...limits }));
    return results;
  } catch (error) {
    if (!isOutcomeUnknown(error)) await rollBack(client, limits);
    throw error;
  }
}

/** Leaves the connection as it was found. One that cannot do even that is of no use to the next one either. */
async function rollBack(client: pg.PoolClient, limits: Limits): Promise<void> {
  await client.query({ text: 'ROLLBACK', ...limits });
}

function createPool({
  connectionString,
  maxConnections = DEFAULT_MAX_CONNECTIONS,
  timeoutMs = DEFAULT_TIMEOUT_MS,
}: PostgresStorageOptions): pg.Pool {
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
