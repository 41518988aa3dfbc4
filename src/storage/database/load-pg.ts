import { createRequire } from 'node:module';
import type pg from 'pg';
import { UnsupportedError } from '../../core/errors.ts';

const require = createRequire(import.meta.url);

/** The package `pg`, which is loaded when a connection is made; an UnsupportedError that says what to install if it is not there. */
export function loadPg(): typeof pg {
  try {
    return require('pg') as typeof pg;
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'MODULE_NOT_FOUND';
    if (!isMissing) throw cause;
    throw new UnsupportedError('PostgreSQL needs the package pg. Install it: npm install pg', { cause });
  }
}
