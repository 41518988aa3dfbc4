import { CorruptError, InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { MAX_STUB_BYTES, STUB_START } from '../../core/tree/object-stub.ts';
import type { SqliteTables } from '../database/sqlite-connection.ts';
import type { SqlDatabase } from '../database/sqlite-driver.ts';

/** "SaVe" in ASCII: tells our files from those of other programs that use SQLite. */
export const APPLICATION_ID = 0x53615665;

/** Grows with every change that an older release could not read. The compression dictionary is part of it. Since 2 records may be packed. */
const FORMAT_VERSION = 2;

/**
 * Every table and index, in the order of creation. The texts are compared byte by byte with what a file holds.
 *
 * A digest is split: 16 bytes make the narrow index, the rest stays in the row. What is read alone stands first in its row,
 * so that SQLite need not follow the overflow pages of long texts. Texts are TEXT as they are, or BLOB if compressed.
 * A `mark` is a short check of what no digest covers: refs, effects and tombstones (NULL for live checkpoints).
 * In `epoch`, 1 counts removed sessions, 2 is the greatest number of a removed chunk (numbers are not used
 * again), and 3 counts the removals of chunks.
 * Indexes that only some rows need are partial: a row without a user, an agent or a key pays nothing for them.
 */
const SCHEMA: readonly string[] = [
  'CREATE TABLE session(n INTEGER PRIMARY KEY, name TEXT NOT NULL)',
  'CREATE UNIQUE INDEX session_name ON session(name)',
  'CREATE TABLE chunk(n INTEGER PRIMARY KEY, prefix BLOB NOT NULL, rest BLOB NOT NULL, refs BLOB, text NOT NULL)',
  'CREATE UNIQUE INDEX chunk_prefix ON chunk(prefix)',
  'CREATE TABLE checkpoint(n INTEGER PRIMARY KEY, id TEXT NOT NULL, session INTEGER NOT NULL, deleted INTEGER NOT NULL, timestamp INTEGER NOT NULL, branch TEXT, type TEXT, status TEXT, agent TEXT, user TEXT, idempotency TEXT, mark TEXT, digest BLOB NOT NULL, root_refs BLOB, body NOT NULL, root_text)',
  'CREATE UNIQUE INDEX checkpoint_id ON checkpoint(id)',
  'CREATE INDEX checkpoint_session ON checkpoint(session, id)',
  'CREATE INDEX checkpoint_user ON checkpoint(user, id) WHERE user IS NOT NULL',
  'CREATE INDEX checkpoint_agent ON checkpoint(agent, id) WHERE agent IS NOT NULL',
  'CREATE UNIQUE INDEX checkpoint_idempotency ON checkpoint(session, idempotency) WHERE idempotency IS NOT NULL',
  'CREATE TABLE ref(session INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, target TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY(session, kind, name)) WITHOUT ROWID',
  'CREATE TABLE effect(n INTEGER PRIMARY KEY, session INTEGER NOT NULL, branch TEXT NOT NULL, ordinal INTEGER NOT NULL, mark TEXT NOT NULL, digest BLOB NOT NULL, refs BLOB, body NOT NULL, text)',
  'CREATE UNIQUE INDEX effect_place ON effect(session, branch, ordinal)',
  'CREATE TABLE epoch(n INTEGER PRIMARY KEY, value INTEGER NOT NULL)',
];

/** Whether a chunk's text lies in an object store. Long texts are not read for it; what names an object is never compressed. */
export const IS_STUB = `octet_length(text) < ${MAX_STUB_BYTES} AND text GLOB '${STUB_START}*'`;

/** Whether the file is new; throws for another program's database and for a newer format. */
function isEmpty(db: SqlDatabase, path: string): boolean {
  // One statement, so that a process that creates the file just now is seen either before or after it did.
  const { applicationId, version, count } = db
    .prepare(
      'SELECT count(*) AS count, (SELECT application_id FROM pragma_application_id) AS applicationId, (SELECT user_version FROM pragma_user_version) AS version FROM sqlite_schema',
    )
    .get() as { applicationId: number; version: number; count: number };
  if (applicationId === 0 && version === 0 && count === 0) return true;
  if (applicationId !== APPLICATION_ID) {
    throw new InvalidInputError(
      `${path} is a SQLite database of another program (application id ${applicationId}, ${count} tables and indexes). Choose another path; the file was left as it is.`,
      { details: { path, applicationId } },
    );
  }
  if (version > FORMAT_VERSION) {
    throw new UnsupportedError(
      `${path} has format version ${version}; this release reads versions up to ${FORMAT_VERSION}. Update savestate to open it.`,
      { details: { path, found: version, supported: FORMAT_VERSION } },
    );
  }
  return false;
}

function create(db: SqlDatabase): void {
  for (const sql of SCHEMA) db.exec(sql);
  db.exec(`INSERT INTO epoch VALUES(1, 0), (2, 0), (3, 0); PRAGMA application_id=${APPLICATION_ID}`);
  db.exec(`PRAGMA user_version=${FORMAT_VERSION}`);
}

/** A file of version 1 is one of version 2 without packed records. */
function migrate(db: SqlDatabase): void {
  if (readPragma(db, 'user_version') < FORMAT_VERSION) db.exec(`PRAGMA user_version=${FORMAT_VERSION}`);
}

/** Throws a CorruptError if the tables are not those of the format. */
function check(db: SqlDatabase, path: string): void {
  const [first] = findSchemaDamage(db);
  if (first === undefined) return;
  throw new CorruptError(`${path} is damaged: ${first} Restore the file from a backup.`, { details: { path } });
}

/** The tables of checkpoints; a file that is created now has pages of this size. */
export function checkpointTables(pageBytes: number): SqliteTables {
  return { isEmpty, create, migrate, check, pragmas: `PRAGMA page_size=${pageBytes}; PRAGMA auto_vacuum=INCREMENTAL` };
}

/** What differs from the format, in plain words. */
export function findSchemaDamage(db: SqlDatabase): string[] {
  const found = db.prepare('SELECT type, name, tbl_name, sql FROM sqlite_schema').all() as SchemaRow[];
  const byName = new Map(found.map((row) => [row.name, formatDefinition(row)]));
  const findings: string[] = [];
  for (const sql of SCHEMA) {
    const [, name = ''] = / (?:TABLE|INDEX) (\w+)/.exec(sql) ?? [];
    if (byName.get(name) !== definitionOf(name, sql))
      findings.push(`The definition of "${name}" is missing or changed.`);
  }
  if (found.length !== SCHEMA.length)
    findings.push(`There are ${found.length} tables and indexes instead of ${SCHEMA.length}.`);
  if (readPragma(db, 'application_id') !== APPLICATION_ID)
    findings.push('The application id is not that of savestate.');
  const version = readPragma(db, 'user_version');
  if (version < 1 || version > FORMAT_VERSION)
    findings.push(`The format version is ${version} instead of ${FORMAT_VERSION}.`);
  return findings;
}

type SchemaRow = { type: string; name: string; tbl_name: string; sql: string | null };

const formatDefinition = ({ type, tbl_name, sql }: SchemaRow): string => `${type} ${tbl_name} ${sql}`;

/** What `sqlite_schema` must say of a table or index. */
function definitionOf(name: string, sql: string): string {
  const table = / INDEX \w+ ON (\w+)/.exec(sql)?.[1];
  return formatDefinition({ type: table === undefined ? 'table' : 'index', name, tbl_name: table ?? name, sql });
}

/** A pragma that answers with one number. */
export function readPragma(
  db: SqlDatabase,
  name: 'application_id' | 'user_version' | 'page_count' | 'page_size' | 'freelist_count',
): number {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() as Record<string, number>)[0] ?? 0;
}
