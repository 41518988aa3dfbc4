import type pg from 'pg';
import { InvalidInputError, NotFoundError, UnsupportedError } from '../../../core/errors.ts';
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

type Target = { readonly schema: string; readonly place: string; readonly appRole?: string | undefined };

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
    return { from: await migrate(client, { schema, place, appRole }), to: SCHEMA_VERSION };
  } catch (error) {
    throw toSavestateError(error, { place });
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Makes sure that the tables are there and of a version we know. Returns as whom statements run: undefined for the login itself, or
 * the application's role where the login could see more than its tenant. @internal
 */
export async function openSchema(
  client: pg.ClientBase,
  target: Target & { readonly migrate?: 'auto' | 'never' | undefined },
): Promise<string | undefined> {
  const found = await readVersion(client, target);
  if (found < SCHEMA_VERSION) {
    if (target.migrate === 'never') throw lacksTables(target, found);
    await migrate(client, target).catch((error: unknown) => {
      throw sqlState(error) === '42501' ? lacksTables(target, found, error) : error;
    });
  }
  return findRole(client, target);
}

function lacksTables({ place }: Target, found: number, cause?: unknown): NotFoundError {
  const has = found === 0 ? 'no tables of savestate' : `tables of version ${found}`;
  return new NotFoundError(
    `${place} has ${has}; version ${SCHEMA_VERSION} is needed. Run migratePostgres once with a role that may create them.`,
    { cause, details: { found, needed: SCHEMA_VERSION } },
  );
}

/** The version of the tables; 0 if there are none. Throws for tables that a newer release made. */
async function readVersion(client: pg.ClientBase, { schema, place }: Target): Promise<number> {
  // Asked of the catalogue's rows: what `to_regclass` knows may be older than a lock that was waited for.
  const { rows } = await client.query(
    "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'version'",
    [schema],
  );
  if (rows.length === 0) return 0;
  const sql = `SELECT coalesce(max(version), 0) AS found FROM ${quoteIdentifier(schema)}.version`;
  const found = (await client.query<{ found: number }>(sql)).rows[0]?.found ?? 0;
  if (found <= SCHEMA_VERSION) return found;
  throw new UnsupportedError(
    `${place} has tables of version ${found}; this release knows versions up to ${SCHEMA_VERSION}. Update savestate to use it.`,
    { details: { found, supported: SCHEMA_VERSION } },
  );
}

/** One transaction with its version mark. Whoever comes second waits, and finds it done. Returns the version that was there. */
async function migrate(client: pg.ClientBase, target: Target): Promise<number> {
  const { schema, appRole = `${schema}_app` } = target;
  const words = { s: quoteIdentifier(schema), raw: schema.replaceAll("'", "''"), role: quoteIdentifier(appRole) };
  const run = (sql: string, values: unknown[] = []) =>
    client.query(
      sql.replace(/\{(s|raw|role)\}/g, (_, word: keyof typeof words) => words[word]),
      values,
    );
  await run('BEGIN');
  try {
    await run('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`savestate migration ${schema}`]);
    const from = await readVersion(client, target);
    const { rows } = await run('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
    if (rows.length === 0) await run('CREATE SCHEMA {s}');
    await run(
      'CREATE TABLE IF NOT EXISTS {s}.version(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    for (const [at, statements] of MIGRATIONS.entries()) {
      if (at < from) continue;
      for (const sql of statements) await run(sql);
      await run('INSERT INTO {s}.version(version) VALUES ($1)', [at + 1]);
    }
    if (await createRole(client, appRole)) for (const sql of GRANTS) await run(sql);
    await run('COMMIT');
    return from;
  } catch (error) {
    await run('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** Makes the application's role and lets the owner act as it. False where the owner may not: then logins must be bound themselves. */
async function createRole(client: pg.ClientBase, role: string): Promise<boolean> {
  const isThere = async () => (await client.query('SELECT 1 FROM pg_roles WHERE rolname = $1', [role])).rows.length > 0;
  const name = quoteIdentifier(role);
  if (!(await isThere()) && !(await tryQuery(client, `CREATE ROLE ${name} NOLOGIN`)) && !(await isThere()))
    return false;
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
    if (!['42501', '42710', '23505', '0LP01'].includes(sqlState(error) ?? '')) throw error;
    await client.query('ROLLBACK TO SAVEPOINT attempt');
    return false;
  }
}

type Login = {
  readonly login: string;
  readonly bypasses: boolean;
  readonly owns: boolean;
  readonly may_act: boolean;
  readonly role_bypasses: boolean;
};

/** Row-level security does not bind superusers. They, and owners, act as the application's role; if they cannot, nothing is done. */
async function findRole(client: pg.ClientBase, { schema, place, appRole }: Target): Promise<string | undefined> {
  const role = appRole ?? `${schema}_app`;
  const { rows } = await client.query<Login>(
    `SELECT current_user AS login, r.rolsuper OR r.rolbypassrls AS bypasses,
       coalesce((SELECT n.nspowner = r.oid FROM pg_namespace n WHERE n.nspname = $1), false) AS owns,
       coalesce((SELECT pg_has_role(current_user, a.oid, 'MEMBER') FROM pg_roles a WHERE a.rolname = $2), false) AS may_act,
       coalesce((SELECT a.rolsuper OR a.rolbypassrls FROM pg_roles a WHERE a.rolname = $2), false) AS role_bypasses
     FROM pg_roles r WHERE r.rolname = current_user`,
    [schema, role],
  );
  const { login, bypasses, owns, may_act: mayAct, role_bypasses: roleBypasses } = rows[0] as Login;
  if (roleBypasses)
    throw new InvalidInputError(
      `appRole "${role}" of ${place} is a superuser or bypasses row security, so that it would see every tenant. Name a role that does neither.`,
      { details: { field: 'appRole', role } },
    );
  if ((bypasses || owns) && mayAct) return role;
  if (!bypasses) return undefined;
  throw new InvalidInputError(
    `The login "${login}" of ${place} is not bound by row-level security, and cannot act as "${role}" instead. Use another login, or make the role: CREATE ROLE ${quoteIdentifier(role)}, then run migratePostgres.`,
    { details: { login, role } },
  );
}
