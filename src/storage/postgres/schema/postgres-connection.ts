import type pg from 'pg';
import { filledString, flag, type OptionChecks, oneOf, wholeFrom } from '../../../core/options.ts';
import { PostgresDatabase, type Row } from '../../database/postgres-database.ts';
import type { Doubt } from '../../database/retry.ts';
import { SERVER_CHECKS, type ServerOptions } from '../../database/server-options.ts';
import { openSchema } from './migration.ts';
import { TENANT_SETTING } from './postgres-schema.ts';

/** How a PostgresCheckpointStorage is opened. */
export type PostgresStorageOptions = ServerOptions & {
  /** Whose data this is; default `default`. Nothing is shared between tenants, not even equal chunks. */
  readonly tenant?: string | undefined;
  /** `auto` (default) makes or updates the tables at the first use; `never` leaves that to `migratePostgres`. */
  readonly migrate?: 'auto' | 'never' | undefined;
  /** The role that statements run as when the login could see more than its tenant; default `<schema>_app`. */
  readonly appRole?: string | undefined;
  readonly maxCheckpointsPerUser?: number | undefined;
  /** Text that commits may hold in memory while they wait for the server; beyond it they are refused. Default 64 MiB. */
  readonly maxQueuedBytes?: number | undefined;
  /** `false` for a pooler that cannot keep prepared statements. */
  readonly prepare?: boolean | undefined;
};

/** What each of the options accepts. */
export const POSTGRES_CHECKS = {
  ...SERVER_CHECKS,
  migrate: oneOf('auto', 'never'),
  appRole: filledString,
  maxCheckpointsPerUser: wholeFrom(1),
  maxQueuedBytes: wholeFrom(1),
  prepare: flag,
} satisfies OptionChecks<PostgresStorageOptions>;

/** What a statement is sent as, but for its values. */
type Prepared = { readonly name?: string; readonly text: string };

/**
 * Connections to one schema as one tenant. Every statement runs in a transaction that says which tenant it is for, and, where the
 * login could see more than that, as the role of the application. What is said to a connection never outlives its transaction.
 */
export class PostgresConnection extends PostgresDatabase {
  readonly tenant: string;
  readonly #options: PostgresStorageOptions;
  readonly #prepared = new Map<string, Prepared>();
  #role: string | undefined;

  constructor(options: PostgresStorageOptions) {
    super(options, options.schema ?? 'savestate');
    this.#options = options;
    this.tenant = options.tenant ?? 'default';
  }

  /** @internal */
  protected async setUp(client: pg.PoolClient): Promise<void> {
    const { schema, place } = this;
    this.#role = await openSchema(client, { ...this.#options, schema, place });
  }

  protected override get settings(): readonly (readonly [string, string])[] {
    return [[TENANT_SETTING, this.tenant], ...(this.#role === undefined ? [] : [['role', this.#role] as const])];
  }

  /** Calls a function that is a transaction of its own; its first arguments are tenant and role. */
  async call<Result extends Row>(
    statement: { readonly name: string; readonly sql: string },
    values: readonly unknown[],
    doubt: Doubt,
  ): Promise<Result[]> {
    const query = () => ({ ...this.#prepare(statement), values: [this.tenant, this.#role ?? null, ...values] });
    return this.send<Result>(query, doubt);
  }

  /** Written once: every save sends it again. */
  #prepare({ name, sql }: { readonly name: string; readonly sql: string }): Prepared {
    const known = this.#prepared.get(name);
    if (known !== undefined) return known;
    const isNamed = this.#options.prepare !== false;
    const prepared = { ...(isNamed && { name: `${name} ${this.schema}` }), text: this.sql(sql) };
    this.#prepared.set(name, prepared);
    return prepared;
  }
}
