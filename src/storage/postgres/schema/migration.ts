import type pg from 'pg';
import { UnsupportedError } from '../../../core/errors.ts';
import { checkOptions, filledString, type OptionChecks } from '../../../core/options.ts';
import { loadPg, quoteIdentifier } from '../../database/postgres-database.ts';
import { sqlState, toSavestateError } from '../../database/postgres-error.ts';
import { checkSchemaName } from '../../database/server-options.ts';
import { GRANTS, MIGRATIONS, SCHEMA_VERSION } from './postgres-schema.ts';

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

type Target = { readonly schema: string; readonly place: string; readonly appRole?: string };

/** One transaction with its version mark. Whoever comes second waits, and finds it done. Returns the version that was there. @internal */
export async function migrate(client: pg.ClientBase, target: Target): Promise<number> {
  const { schema, place, appRole = `${schema}_app` } = target;
  const words = { s: quoteIdentifier(schema), raw: schema.replaceAll("'", "''"), role: quoteIdentifier(appRole) };
  const fill = (sql: string): string => sql.replace(/\{(s|raw|role)\}/g, (_, word: keyof typeof words) => words[word]);
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`savestate migration ${schema}`]);
    const from = await readVersion(client, schema);
    checkVersion(from, place);
    await createSchema(client, schema);
    for (const [at, statements] of MIGRATIONS.entries()) {
      if (at < from) continue;
      for (const sql of statements) await client.query(fill(sql));
      await client.query(fill('INSERT INTO {s}.version(version) VALUES ($1)'), [at + 1]);
    }
    if (await createRole(client, appRole)) for (const sql of GRANTS) await client.query(fill(sql));
    await client.query('COMMIT');
    return from;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

async function createSchema(client: pg.ClientBase, schema: string): Promise<void> {
  const { rows } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  if (rows.length === 0) await client.query(`CREATE SCHEMA ${quoteIdentifier(schema)}`);
  await client.query(
    `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(schema)}.version(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
}

/** Makes the application's role and lets the owner act as it. False where the owner may not: then logins must be bound themselves. */
async function createRole(client: pg.ClientBase, role: string): Promise<boolean> {
  const { rows } = await client.query('SELECT 1 FROM pg_roles WHERE rolname = $1', [role]);
  const name = quoteIdentifier(role);
  if (rows.length === 0 && !(await tryQuery(client, `CREATE ROLE ${name} NOLOGIN`))) {
    const again = await client.query('SELECT 1 FROM pg_roles WHERE rolname = $1', [role]);
    if (again.rows.length === 0) return false;
  }
  await tryQuery(client, `GRANT ${name} TO CURRENT_USER`);
  return true;
}

/** Whether a statement was allowed; if not, the transaction goes on without it. Roles belong to all databases of a server. */
async function tryQuery(client: pg.ClientBase, sql: string): Promise<boolean> {
  await client.query('SAVEPOINT attempt');
  try {
    await client.query(sql);
    await client.query('RELEASE SAVEPOINT attempt');
    return true;
  } catch (error) {
    const state = sqlState(error);
    if (state !== '42501' && state !== '42710' && state !== '23505' && state !== '0LP01') throw error;
    await client.query('ROLLBACK TO SAVEPOINT attempt');
    return false;
  }
}

/** The version of the tables; 0 if there are none. @internal */
export async function readVersion(client: pg.ClientBase, schema: string): Promise<number> {
  // Asked of the catalogue's rows: what `to_regclass` knows may be older than a lock that was waited for.
  const { rows } = await client.query(
    "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'version'",
    [schema],
  );
  if (rows.length === 0) return 0;
  const table = `${quoteIdentifier(schema)}.version`;
  const versions = await client.query<{ version: number }>(`SELECT coalesce(max(version), 0) AS version FROM ${table}`);
  return versions.rows[0]?.version ?? 0;
}

/** Throws for tables that a newer release made. */
export function checkVersion(found: number, place: string): void {
  if (found <= SCHEMA_VERSION) return;
  throw new UnsupportedError(
    `${place} has tables of version ${found}; this release knows versions up to ${SCHEMA_VERSION}. Update savestate to use it.`,
    { details: { found, supported: SCHEMA_VERSION } },
  );
}
