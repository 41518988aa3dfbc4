import { InvalidInputError } from '../../../core/errors.ts';
import {
  anything,
  checkOptions,
  filledString,
  flag,
  type OptionChecks,
  oneOf,
  record,
  wholeFrom,
} from '../../../core/options.ts';
import { parseName } from '../../../core/record/id.ts';
import type { PostgresPool } from './postgres-pool.ts';

/** Tenants are the first part of every key, so they are kept short. */
const MAX_TENANT_CHARS = 128;

/** PostgreSQL cuts longer identifiers off; `_app` must still fit. */
const MAX_SCHEMA_BYTES = 59;

/** How a PostgresCheckpointStorage is opened: by a connection string, or on connections that you keep yourself. */
export type PostgresStorageOptions = {
  readonly connectionString?: string | undefined;
  /** A pool of the `pg` package. It stays open when the storage is closed. With `pipeline: true` reads take one round trip instead of three. */
  readonly pool?: PostgresPool | undefined;
  /** Where the tables are; default `savestate`. Made at the first use if it is missing. */
  readonly schema?: string | undefined;
  /** Whose data this is; default `default`. Nothing is shared between tenants, not even equal chunks. */
  readonly tenant?: string | undefined;
  /** `auto` (default) makes or updates the tables at the first use; `never` leaves that to `migratePostgres`. */
  readonly migrate?: 'auto' | 'never' | undefined;
  /** The role that statements run as when the login could see more than its tenant; default `<schema>_app`. */
  readonly appRole?: string | undefined;
  readonly maxCheckpointsPerUser?: number | undefined;
  /** Connections of our own pool at most, at least 2; default 10. */
  readonly maxConnections?: number | undefined;
  /** How long a call is tried again while the server cannot be reached; default 30 s. */
  readonly retryForMs?: number | undefined;
  /** How long one statement may take before its connection is given up; default 30 s. */
  readonly timeoutMs?: number | undefined;
  /** Text that commits may hold in memory while they wait for the server; beyond it they are refused. Default 64 MiB. */
  readonly maxQueuedBytes?: number | undefined;
  /** `false` for a pooler that cannot keep prepared statements. */
  readonly prepare?: boolean | undefined;
};

const OPTIONS = {
  connectionString: filledString,
  pool: record,
  schema: filledString,
  tenant: anything,
  migrate: oneOf('auto', 'never'),
  appRole: filledString,
  maxCheckpointsPerUser: wholeFrom(1),
  // Collecting deletes on one connection what it found on another.
  maxConnections: wholeFrom(2),
  retryForMs: wholeFrom(0),
  timeoutMs: wholeFrom(1),
  maxQueuedBytes: wholeFrom(1),
  prepare: flag,
} satisfies OptionChecks<PostgresStorageOptions>;

/** Accepts options or throws. A tenant that was meant to be given and came out undefined or empty is no default. */
export function checkPostgresOptions(options: PostgresStorageOptions): void {
  checkOptions(options, OPTIONS, 'PostgresCheckpointStorage');
  if ('tenant' in options) checkTenant(options.tenant);
  if ((options.connectionString === undefined) === (options.pool === undefined)) {
    throw new InvalidInputError('PostgresCheckpointStorage needs either a connectionString or a pool.');
  }
  checkSchemaName(options.schema ?? 'savestate');
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
