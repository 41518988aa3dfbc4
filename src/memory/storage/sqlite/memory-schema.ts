import { UnsupportedError } from '../../../core/errors.ts';
import type { SqliteTables } from '../../../storage/database/sqlite-connection.ts';
import type { SqlDatabase } from '../../../storage/database/sqlite-driver.ts';

/** The version of the tables. The high number tells a memory from other files that use small ones. Version 7001 had an index of terms, too. */
const SCHEMA_VERSION = 7002;

/**
 * The tables of a memory file. Events are only appended (purging excepted); their numbers are never used twice, so that whatever
 * was read of them stays true. `memory_history` shows the log in the columns that tools for such logs know.
 */
const SCHEMA: readonly string[] = [
  `CREATE TABLE memory_event(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT NOT NULL, operation TEXT NOT NULL,
    user_id TEXT, agent_id TEXT, run_id TEXT, session_id TEXT,
    hash TEXT, subject TEXT, slot TEXT, kind TEXT, key TEXT, at_ms REAL NOT NULL,
    content TEXT, previous TEXT, body TEXT NOT NULL)`,
  'CREATE INDEX memory_event_memory ON memory_event(memory_id)',
  'CREATE INDEX memory_event_user ON memory_event(user_id) WHERE user_id IS NOT NULL',
  'CREATE INDEX memory_event_agent ON memory_event(agent_id) WHERE agent_id IS NOT NULL',
  'CREATE INDEX memory_event_run ON memory_event(run_id) WHERE run_id IS NOT NULL',
  'CREATE INDEX memory_event_session ON memory_event(session_id) WHERE session_id IS NOT NULL',
  'CREATE INDEX memory_event_hash ON memory_event(hash) WHERE hash IS NOT NULL',
  "CREATE INDEX memory_event_subject ON memory_event(subject, kind) WHERE kind IS NOT NULL AND kind <> 'episode'",
  'CREATE UNIQUE INDEX memory_event_key ON memory_event(key) WHERE key IS NOT NULL',
  'CREATE TABLE memory_vector(position INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, seq INTEGER NOT NULL, vector BLOB NOT NULL, UNIQUE (model, seq))',
  'CREATE TABLE memory_epoch(epoch INTEGER NOT NULL)',
  'INSERT INTO memory_epoch VALUES (1)',
  `CREATE VIEW memory_history AS SELECT seq AS id, memory_id, previous AS previous_value,
    CASE WHEN operation = 'RETRACT' THEN NULL ELSE content END AS new_value,
    CASE operation WHEN 'RETRACT' THEN 'DELETE' ELSE operation END AS action,
    strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000, 'unixepoch') AS updated_at,
    operation IN ('RETRACT', 'PURGE') AS is_deleted,
    json_extract(body, '$.actor') AS actor_id, json_extract(body, '$.fields.trust') AS role
    FROM memory_event WHERE operation <> 'EXTRACT'`,
];

/** The tables of a memory file. A file that is something else is not touched. */
export const memoryTables: SqliteTables = {
  isEmpty,
  create: (db) => {
    for (const statement of SCHEMA) db.exec(statement);
    db.exec(`PRAGMA user_version=${SCHEMA_VERSION}`);
  },
  migrate: (db) => {
    if (readVersion(db).version === SCHEMA_VERSION) return;
    db.exec(`BEGIN IMMEDIATE; DROP TABLE IF EXISTS memory_terms; PRAGMA user_version=${SCHEMA_VERSION}; COMMIT`);
  },
};

const KNOWN_VERSIONS = [7001, SCHEMA_VERSION];

function readVersion(db: SqlDatabase): { version: number; count: number } {
  const sql = 'SELECT count(*) AS count, (SELECT user_version FROM pragma_user_version) AS version FROM sqlite_schema';
  return db.prepare(sql).get() as { version: number; count: number };
}

/** Throws for a file that is not a memory of a known version. */
function isEmpty(db: SqlDatabase, path: string): boolean {
  const { version, count } = readVersion(db);
  if (KNOWN_VERSIONS.includes(version)) return false;
  if (version === 0 && count === 0) return true;
  throw new UnsupportedError(
    `The file ${path} is not a memory of version ${SCHEMA_VERSION}; found version ${version} with ${count} tables and indexes. Choose another path, or update savestate.`,
    { details: { path, found: version, supported: SCHEMA_VERSION } },
  );
}
