import type pg from 'pg';
import { UnsupportedError } from '../../../core/errors.ts';
import { quoteIdentifier } from '../../database/postgres-database.ts';
import { SCHEMA_VERSION } from './postgres-schema.ts';

/** The version of the tables; 0 if there are none. */
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
