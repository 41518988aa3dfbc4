import type pg from 'pg';
import { InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import { quoteIdentifier } from '../../database/postgres-database.ts';
import { checkVersion, migrate, readVersion } from './migration.ts';
import { SCHEMA_VERSION } from './postgres-schema.ts';

type Opening = {
  readonly schema: string;
  readonly place: string;
  readonly migrate?: 'auto' | 'never';
  readonly appRole?: string;
};

/**
 * Makes sure that the tables are there and of a version we know. Returns as whom statements run: undefined for the login itself, or
 * the application's role where the login could see more than its tenant.
 */
export async function openSchema(client: pg.PoolClient, opening: Opening): Promise<string | undefined> {
  await bringUpToDate(client, opening);
  return findRole(client, opening);
}

async function bringUpToDate(client: pg.PoolClient, opening: Opening): Promise<void> {
  const { schema, place } = opening;
  const found = await readVersion(client, schema);
  checkVersion(found, place);
  if (found === SCHEMA_VERSION) return;
  if (opening.migrate === 'never') {
    throw new NotFoundError(
      `${place} has ${found === 0 ? 'no tables of savestate' : `tables of version ${found}`}; version ${SCHEMA_VERSION} is needed. Run migratePostgres once with a role that may create them, or allow migrate: 'auto'.`,
      { details: { found, needed: SCHEMA_VERSION } },
    );
  }
  await migrate(client, opening);
}

type Login = {
  readonly login: string;
  readonly bypasses: boolean;
  readonly owns: boolean;
  readonly may_act: boolean;
  readonly role_bypasses: boolean;
};

/** Row-level security does not bind superusers. They, and owners, act as the application's role; if they cannot, nothing is done. */
async function findRole(client: pg.PoolClient, { schema, place, appRole }: Opening): Promise<string | undefined> {
  const role = appRole ?? `${schema}_app`;
  const { rows } = await client.query<Login>(
    `SELECT current_user AS login, r.rolsuper OR r.rolbypassrls AS bypasses,
       coalesce((SELECT n.nspowner = r.oid FROM pg_namespace n WHERE n.nspname = $1), false) AS owns,
       coalesce((SELECT pg_has_role(current_user, a.oid, 'MEMBER') FROM pg_roles a WHERE a.rolname = $2), false) AS may_act,
       coalesce((SELECT a.rolsuper OR a.rolbypassrls FROM pg_roles a WHERE a.rolname = $2), false) AS role_bypasses
     FROM pg_roles r WHERE r.rolname = current_user`,
    [schema, role],
  );
  const [found] = rows;
  if (found === undefined) throw new InvalidInputError(`${place} does not say which role it was reached as.`);
  if (found.role_bypasses)
    throw new InvalidInputError(
      `appRole "${role}" of ${place} is a superuser or bypasses row security, so that it would see every tenant. Name a role that does neither.`,
      { details: { field: 'appRole', role } },
    );
  if ((found.bypasses || found.owns) && found.may_act) return role;
  if (!found.bypasses) return undefined;
  throw new InvalidInputError(
    `The login "${found.login}" of ${place} is not bound by row-level security, and cannot act as "${role}" instead. Use another login, or make the role: CREATE ROLE ${quoteIdentifier(role)}, then run migratePostgres.`,
    { details: { login: found.login, role } },
  );
}
