import { InvalidInputError } from '../../core/errors.ts';
import { parseName } from '../../core/id.ts';
import type { PostgresPool } from './postgres-pool.ts';

/** Tenants are the first part of every key, so they are kept short. */
const MAX_TENANT_CHARS = 128;

/** PostgreSQL cuts longer identifiers off; `_app` must still fit. */
const MAX_SCHEMA_BYTES = 59;

/** The least that makes sense of each number. Collecting deletes on one connection what it found on another. */
const LEAST = { maxConnections: 2, retryForMs: 0, timeoutMs: 1, maxQueuedBytes: 1 } as const;

/** How a PostgresCheckpointStorage is opened: by a connection string, or on connections that you keep yourself. */
export type PostgresStorageOptions = {
  readonly connectionString?: string;
  /** A pool of the `pg` package. It stays open when the storage is closed. With `pipeline: true` reads take one round trip instead of three. */
  readonly pool?: PostgresPool;
  /** Where the tables are; default `savestate`. Made at the first use if it is missing. */
  readonly schema?: string;
  /** Whose data this is. Nothing is shared between tenants, not even equal chunks. */
  readonly tenant: string;
  /** `auto` (default) makes or updates the tables at the first use; `never` leaves that to `migratePostgres`. */
  readonly migrate?: 'auto' | 'never';
  /** The role that statements run as when the login could see more than its tenant; default `<schema>_app`. */
  readonly appRole?: string;
  readonly maxCheckpointsPerUser?: number;
  /** Connections of our own pool at most, at least 2; default 10. */
  readonly maxConnections?: number;
  /** How long a call is tried again while the server cannot be reached; default 30 s. */
  readonly retryForMs?: number;
  /** How long one statement may take before its connection is given up; default 30 s. */
  readonly timeoutMs?: number;
  /** Text that commits may hold in memory while they wait for the server; beyond it they are refused. Default 64 MiB. */
  readonly maxQueuedBytes?: number;
  /** `false` for a pooler that cannot keep prepared statements. */
  readonly prepare?: boolean;
};

/** Accepts options or throws: everything fails closed, a missing or empty tenant first of all. */
export function checkOptions(options: PostgresStorageOptions): void {
  if (typeof options !== 'object' || options === null)
    throw new InvalidInputError('PostgresCheckpointStorage needs options.');
  checkTenant(options.tenant);
  if ((options.connectionString === undefined) === (options.pool === undefined)) {
    throw new InvalidInputError('PostgresCheckpointStorage needs either a connectionString or a pool.');
  }
  checkSchemaName(options.schema ?? 'savestate');
  for (const [name, least] of Object.entries(LEAST) as [keyof typeof LEAST, number][]) {
    const value = options[name];
    if (value !== undefined && !(Number.isInteger(value) && value >= least)) {
      throw new InvalidInputError(`${name} must be a whole number of at least ${least}; found ${value}.`);
    }
  }
}

function checkTenant(tenant: unknown): void {
  if (typeof tenant === 'string' && tenant.length > 0 && tenant.length <= MAX_TENANT_CHARS) {
    parseName(tenant, 'A tenant');
    return;
  }
  const found = typeof tenant === 'string' ? `${tenant.length} characters` : typeof tenant;
  throw new InvalidInputError(`A tenant must be a text of 1 to ${MAX_TENANT_CHARS} characters; found ${found}.`);
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
