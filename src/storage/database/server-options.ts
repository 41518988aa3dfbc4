import { InvalidInputError } from '../../core/errors.ts';
import { anything, checkOptions, filledString, type OptionChecks, record, wholeFrom } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';

/** Tenants are the first part of every key, so they are kept short. */
const MAX_TENANT_CHARS = 128;

/** PostgreSQL cuts longer identifiers off; `_app` must still fit. */
const MAX_SCHEMA_BYTES = 59;

/** A pool of the `pg` package, as far as it is told apart here: spelt out, so that types hold without the package. */
interface PostgresPool {
  connect(): Promise<{ release(error?: Error | boolean): void }>;
  end(): Promise<void>;
  readonly totalCount: number;
}

/** How a PostgreSQL server is reached: by a connection string, or on connections that you keep yourself. */
export type ServerOptions = {
  readonly connectionString?: string | undefined;
  /** A pool of the `pg` package. It stays open when the storage is closed. With `pipeline: true` reads take one round trip instead of three. */
  readonly pool?: PostgresPool | undefined;
  /** Where the tables are; default `savestate`, for memories `savestate_memory`. Made at the first use if it is missing. */
  readonly schema?: string | undefined;
  /** Connections of our own pool at most, at least 2; default 10. */
  readonly maxConnections?: number | undefined;
  /** How long a call is tried again while the server cannot be reached; default 30 s, and 3 s until the first connection. */
  readonly retryForMs?: number | undefined;
  /** How long one statement may take before its connection is given up; default 30 s. */
  readonly timeoutMs?: number | undefined;
};

/** The checks of `ServerOptions` and of a tenant. */
export const SERVER_CHECKS = {
  connectionString: filledString,
  pool: record,
  schema: filledString,
  tenant: anything,
  // Collecting deletes on one connection what it found on another.
  maxConnections: wholeFrom(2),
  retryForMs: wholeFrom(0),
  timeoutMs: wholeFrom(1),
} satisfies OptionChecks<ServerOptions>;

/** Accepts the options of a storage on a server or throws. A tenant that was meant to be given and came out undefined or empty is no default. */
export function checkServerOptions(
  options: ServerOptions & { readonly tenant?: unknown },
  checks: OptionChecks,
  of: string,
): void {
  checkOptions(options, checks, of);
  if ('tenant' in options) checkTenant(options.tenant);
  if ((options.connectionString === undefined) === (options.pool === undefined))
    throw new InvalidInputError(`${of} needs either a connectionString or a pool.`);
  if (options.schema !== undefined) checkSchemaName(options.schema);
}

function checkTenant(tenant: unknown): void {
  if (typeof tenant === 'string' && tenant.length > 0 && tenant.length <= MAX_TENANT_CHARS) {
    parseName(tenant, 'A tenant');
    return;
  }
  const found = typeof tenant === 'string' ? `${tenant.length} characters` : typeof tenant;
  throw new InvalidInputError(
    `A tenant must be a string of 1 to ${MAX_TENANT_CHARS} characters; found ${found}. Leave it out if your program serves one tenant only.`,
  );
}

/** Accepts the name of a schema or throws. */
export function checkSchemaName(schema: string): void {
  parseName(schema, 'A schema');
  if (new TextEncoder().encode(schema).length > MAX_SCHEMA_BYTES || schema.startsWith('pg_')) {
    throw new InvalidInputError(
      `A schema must have at most ${MAX_SCHEMA_BYTES} bytes and must not start with "pg_"; found ${JSON.stringify(schema)}.`,
    );
  }
}
