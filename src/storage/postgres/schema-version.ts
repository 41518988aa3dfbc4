import type pg from 'pg';
import { UnsupportedError } from '../../core/errors.ts';
import { quoteIdentifier, SCHEMA_VERSION } from './postgres-schema.ts';

/** The version of the tables; 0 if there are none. */
export async function readVersion(client: pg.ClientBase, schema: string): Promise<number> {
  const table = `${quoteIdentifier(schema)}.version`;
  const { rows } = await client.query<{ found: boolean }>('SELECT to_regclass($1) IS NOT NULL AS found', [table]);
  if (rows[0]?.found !== true) return 0;
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
