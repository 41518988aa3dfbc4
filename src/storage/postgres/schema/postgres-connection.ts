import type pg from 'pg';
import { withoutUndefined } from '../../../core/defined.ts';
import { PostgresDatabase, type Row } from '../../database/postgres-database.ts';
import type { Doubt } from '../../database/retry.ts';
import type { PostgresStorageOptions } from './postgres-options.ts';
import { TENANT_SETTING } from './postgres-schema.ts';
import { openSchema } from './schema-opening.ts';

/**
 * Connections to one schema as one tenant. Every statement runs in a transaction that says which tenant it is for, and, where the
 * login could see more than that, as the role of the application. What is said to a connection never outlives its transaction.
 */
export class PostgresConnection extends PostgresDatabase {
  readonly tenant: string;
  readonly #options: PostgresStorageOptions;
  #role: string | undefined;

  constructor(options: PostgresStorageOptions) {
    super(options, options.schema ?? 'savestate');
    this.#options = options;
    this.tenant = options.tenant ?? 'default';
  }

  protected async setUp(client: pg.PoolClient): Promise<void> {
    const { schema, place } = this;
    this.#role = await openSchema(client, { ...withoutUndefined(this.#options), schema, place });
  }

  protected override get settings(): readonly (readonly [string, string])[] {
    return [[TENANT_SETTING, this.tenant], ...(this.#role === undefined ? [] : [['role', this.#role] as const])];
  }

  /** Calls a function that is a transaction of its own; its first arguments are tenant and role. */
  async call<Result extends Row>(
    { name, sql }: { readonly name: string; readonly sql: string },
    values: readonly unknown[],
    doubt: Doubt,
  ): Promise<Result[]> {
    const statement = () => ({
      ...(this.#options.prepare !== false && { name: `${name} ${this.schema}` }),
      text: this.sql(sql),
      values: [this.tenant, this.#role ?? null, ...values],
    });
    return this.send<Result>(statement, doubt);
  }
}
