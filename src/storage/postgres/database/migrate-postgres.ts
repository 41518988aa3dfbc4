import pg from 'pg';
import { migrate } from './migration.ts';
import { toSavestateError } from './postgres-error.ts';
import { checkSchemaName } from './postgres-options.ts';
import { SCHEMA_VERSION } from './postgres-schema.ts';

/** Where tables are made, and for whom. */
export type MigrationOptions = {
  readonly connectionString: string;
  /** Default `savestate`. */
  readonly schema?: string;
  /** The role that may use the tables and owns none; default `<schema>_app`. Grant it to the logins of your programs. */
  readonly appRole?: string;
};

/** Makes or updates the tables, as an administrator would before a release. Answers the versions before and after. */
export async function migratePostgres({
  connectionString,
  schema = 'savestate',
  appRole,
}: MigrationOptions): Promise<{ readonly from: number; readonly to: number }> {
  checkSchemaName(schema);
  const place = `PostgreSQL, schema "${schema}"`;
  const client = new pg.Client({ connectionString });
  try {
    await client.connect();
    const from = await migrate(client, { schema, place, ...(appRole !== undefined && { appRole }) });
    return { from, to: SCHEMA_VERSION };
  } catch (error) {
    throw toSavestateError(error, { place });
  } finally {
    await client.end().catch(() => undefined);
  }
}
