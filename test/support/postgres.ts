import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { cleanUpLater } from './clean-up.ts';
import { postgresUrl } from './on-demand.ts';

export { postgresUrl };

/** A connection as the superuser; it is ended with the test, or with the file if no test is running. */
export async function adminClient(): Promise<Client> {
  const client = await connect();
  cleanUpLater(() => client.end());
  return client;
}

async function connect(): Promise<Client> {
  const client = new Client({ connectionString: postgresUrl() });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

async function asAdmin(work: (client: Client) => Promise<void>): Promise<void> {
  const client = await connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/**
 * The name of a schema that does not exist yet. The schema, all that is in it, and the role `<schema>_app`, if there are
 * such, go with the test, or with the file if no test is running.
 */
export function freshSchema(): string {
  const schema = uniqueName();
  cleanUpLater(() => asAdmin((client) => dropSchema(client, schema)));
  return schema;
}

function uniqueName(): string {
  return `test_${randomBytes(6).toString('hex')}`;
}

async function dropSchema(client: Client, schema: string): Promise<void> {
  // A session a test has left in the middle of a transaction would keep us waiting.
  await client.query(
    `select pg_terminate_backend(pid) from pg_locks
      where relation in (select oid from pg_class where relnamespace = to_regnamespace($1)) and pid <> pg_backend_pid()`,
    [schema],
  );
  await client.query(`drop schema if exists ${client.escapeIdentifier(schema)} cascade`);
  await dropRole(client, `${schema}_app`);
}

async function dropRole(client: Client, name: string): Promise<void> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [name]);
  if (rowCount === 0) return;
  const role = client.escapeIdentifier(name);
  await client.query(`drop owned by ${role} cascade; drop role ${role}`);
}

/** A role made for a test: no superuser, no rights but those it was given. */
export type Login = { readonly user: string; readonly url: string };

type LoginOptions = {
  /** Roles it belongs to, so that it has their rights. */
  readonly memberOf?: readonly string[];
  /** What else comes after `create role ... login`, such as `bypassrls` or `connection limit 3`. */
  readonly attributes?: string;
};

/** Makes a login role; it goes with the test, or with the file if no test is running. */
export async function createLogin({ memberOf = [], attributes = '' }: LoginOptions = {}): Promise<Login> {
  const user = `${uniqueName()}_login`;
  cleanUpLater(() => asAdmin((client) => dropRole(client, user)));
  await asAdmin(async (client) => {
    const role = client.escapeIdentifier(user);
    await client.query(`create role ${role} login ${attributes}`);
    for (const group of memberOf) await client.query(`grant ${client.escapeIdentifier(group)} to ${role}`);
  });
  const url = new URL(postgresUrl());
  url.username = user;
  return { user, url: url.href };
}
