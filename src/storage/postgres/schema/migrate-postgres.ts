import { checkOptions, filledString, type OptionChecks } from '../../../core/options.ts';
import { loadPg } from '../../database/load-pg.ts';
import { toSavestateError } from '../../database/postgres-error.ts';
import { checkSchemaName } from '../../database/server-options.ts';
import { migrate } from './migration.ts';
import { SCHEMA_VERSION } from './postgres-schema.ts';

/** Where tables are made, and for whom. */
export type MigrationOptions = {
  readonly connectionString: string;
  /** Default `savestate`. */
  readonly schema?: string;
  /** The role that may use the tables and owns none; default `<schema>_app`. Grant it to the logins of your programs. */
  readonly appRole?: string;
};

const OPTIONS = {
  connectionString: { required: filledString },
  schema: filledString,
  appRole: filledString,
} satisfies OptionChecks<MigrationOptions>;

/** Makes or updates the tables, as an administrator would before a release. Returns the versions before and after. */
export async function migratePostgres(
  options: MigrationOptions,
): Promise<{ readonly from: number; readonly to: number }> {
  checkOptions(options, OPTIONS, 'migratePostgres');
  const { connectionString, schema = 'savestate', appRole } = options;
  checkSchemaName(schema);
  const place = `PostgreSQL, schema "${schema}"`;
  const client = new (loadPg().Client)({ connectionString });
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
