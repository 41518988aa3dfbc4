import type pg from 'pg';
import { UnsupportedError } from '../../../core/errors.ts';
import { PostgresDatabase, type Query } from '../../../storage/database/postgres-database.ts';
import { MIGRATIONS, SCHEMA, SCHEMA_VERSION } from './postgres-memory-schema.ts';

const LOCK = "SELECT pg_advisory_xact_lock(hashtext('savestate memory ' || $1))";

/** Connections to the tables of memories, which are made at the first use. */
export class PostgresMemoryDatabase extends PostgresDatabase {
  /** @internal */
  protected async setUp(client: pg.PoolClient): Promise<void> {
    await this.transactOn(client, async (query) => {
      await query(LOCK, [this.sql('{s}')]);
      await this.#migrate(query);
    });
  }

  /**
   * Runs several statements as one transaction. Writers of a schema take turns, so that the numbers of events grow in the order in
   * which they become visible: whoever has read one has read all before it. A write that may be stored is not tried again.
   */
  async write<Result>(work: (query: Query) => Promise<Result>): Promise<Result> {
    const inTurn = async (query: Query) => {
      await query(LOCK, [this.sql('{s}')]);
      return work(query);
    };
    return this.transact(inTurn, { exists: false, isFinal: true });
  }

  async #migrate(query: Query): Promise<void> {
    await query('CREATE SCHEMA IF NOT EXISTS {s}');
    const [found] = await query<{ exists: boolean }>("SELECT to_regclass('{s}.memory_version') IS NOT NULL AS exists");
    const [row] =
      found?.exists === true
        ? await query<{ version: number }>('SELECT max(version) AS version FROM {s}.memory_version')
        : [];
    if (row?.version === SCHEMA_VERSION) return;
    const statements = row === undefined ? SCHEMA : MIGRATIONS.get(row.version);
    if (statements === undefined)
      throw new UnsupportedError(
        `${this.place} has memory tables of version ${row?.version}; this release knows versions up to ${SCHEMA_VERSION}. Update savestate to use it.`,
      );
    for (const statement of statements) await query(statement);
  }
}
