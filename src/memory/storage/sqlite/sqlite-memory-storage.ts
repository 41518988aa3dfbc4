import { UnsupportedError } from '../../../core/errors.ts';
import { checkOptions } from '../../../core/options.ts';
import { Conditions } from '../../../storage/database/conditions.ts';
import {
  SQLITE_CHECKS,
  SqliteConnection,
  type SqliteOptions,
  type SqliteTables,
} from '../../../storage/database/sqlite-connection.ts';
import type { SqlDatabase, SqlValue } from '../../../storage/database/sqlite-driver.ts';
import { EVENT_COLUMNS, type EventRow, fromRow, scopeColumns, toValues } from '../event-row.ts';
import type { MemoryScope } from '../memory-record.ts';
import type {
  AppendConditions,
  AppendResult,
  EventVector,
  MemoryEvent,
  MemoryStorage,
  NewMemoryEvent,
  Removal,
  StoredVector,
  VectorQuery,
} from '../memory-storage.ts';
import { SqlMemoryReader } from '../sql-memory-reader.ts';

const INSERT = `INSERT INTO memory_event(${EVENT_COLUMNS.join(', ')}) VALUES (${EVENT_COLUMNS.map(() => '?').join(', ')})`;
const REWRITE = `UPDATE memory_event SET (${EVENT_COLUMNS.join(', ')}) = (${EVENT_COLUMNS.map(() => '?').join(', ')}) WHERE seq = ?`;
const IS_KNOWN = 'SELECT 1 FROM memory_event WHERE key = ?1 UNION ALL SELECT 1 FROM memory_event WHERE hash = ?2';
/** A statement that is a transaction by itself costs a third less than a look, a beginning, an insert and an end. */
const INSERT_NEW = `INSERT INTO memory_event(${EVENT_COLUMNS.join(', ')}) SELECT ${EVENT_COLUMNS.map((_, at) => `?${at + 1}`).join(', ')}
  WHERE NOT EXISTS (SELECT 1 FROM memory_event WHERE key = ?${EVENT_COLUMNS.indexOf('key') + 1})
  AND NOT EXISTS (SELECT 1 FROM memory_event WHERE hash = ?${EVENT_COLUMNS.indexOf('hash') + 1})`;
const LAST_SEQ = 'SELECT max(seq) AS seq FROM memory_event WHERE memory_id = ?';
const INSERT_VECTOR = `INSERT INTO memory_vector(model, seq, vector) SELECT ?1, ?2, ?3
  WHERE EXISTS (SELECT 1 FROM memory_event WHERE seq = ?2) ON CONFLICT DO NOTHING`;
const COLUMNS = ['seq', ...EVENT_COLUMNS].join(', ');
/** All rows as one text: rows that are made column by column cost more than all else that a first search does. */
const SELECT = `SELECT json_group_array(json_array(${COLUMNS})) AS rows FROM (SELECT ${COLUMNS} FROM memory_event`;

/** Where memories are kept by default. */
export const DEFAULT_PATH = 'memories/history.db';

/** How a memory file is opened. */
export type SqliteMemoryOptions = SqliteOptions & {
  /** The file; default `memories/history.db`. Its folder is made if it is missing. */
  readonly path?: string | undefined;
};

/** Memory events in one SQLite file, which any number of processes may use at once. */
export class SqliteMemoryStorage extends SqlMemoryReader<SqliteConnection> implements MemoryStorage {
  constructor(options: SqliteMemoryOptions = {}) {
    checkOptions(options, SQLITE_CHECKS, 'SqliteMemoryStorage');
    const { path = DEFAULT_PATH, ...settings } = options;
    super(new SqliteConnection(path, memoryTables, { ...settings, makesFolder: true }));
  }

  async append(events: readonly NewMemoryEvent[], conditions: AppendConditions = {}): Promise<AppendResult> {
    const { expectations = [], isNew = false } = conditions;
    const [first] = events;
    if (isNew && events.length === 1 && expectations.length === 0 && first !== undefined) return this.#appendNew(first);
    return this.connection.write(() => {
      const isMoved = expectations.some(({ memoryId, lastSeq }) => {
        const { seq } = this.connection.prepare(LAST_SEQ).get(memoryId) as { seq: number | null };
        return (seq ?? 0) !== lastSeq;
      });
      if (isMoved) return { status: 'moved' };
      if (events.some((event) => this.#isKnown(event, isNew))) return { status: 'duplicate' };
      return { status: 'stored', events: events.map((event) => this.#insert(event)) };
    });
  }

  #isKnown({ key, fields }: NewMemoryEvent, isNew: boolean): boolean {
    const hash = isNew ? fields?.hash : undefined;
    if (key === undefined && hash === undefined) return false;
    return this.connection.prepare(IS_KNOWN).get(key ?? null, hash ?? null) !== undefined;
  }

  #appendNew(event: NewMemoryEvent): Promise<AppendResult> {
    const values = toValues(event);
    return this.connection.writeOne(() => {
      const { changes, lastInsertRowid } = this.connection.prepare(INSERT_NEW).run(...values);
      if (changes === 0) return { status: 'duplicate' };
      return { status: 'stored', events: [{ ...event, seq: Number(lastInsertRowid) }] };
    });
  }

  #insert(event: NewMemoryEvent): MemoryEvent {
    const { lastInsertRowid } = this.connection.prepare(INSERT).run(...toValues(event));
    return { ...event, seq: Number(lastInsertRowid) };
  }

  /** `+` keeps SQLite from walking through all that a user ever said. @internal */
  protected where(scope: MemoryScope): Conditions<unknown> {
    const where = new Conditions<unknown>('?');
    for (const { column, value } of scopeColumns(scope)) where.add(`+${column} = ?`, value);
    return where;
  }

  /** @internal */
  protected among(where: Conditions<unknown>, column: string, values: readonly string[]): Conditions<unknown> {
    return values.length === 1
      ? where.add(`${column} = ?`, values[0])
      : where.add(`${column} IN (SELECT value FROM json_each(?))`, JSON.stringify(values));
  }

  /** @internal */
  protected async select(where: Conditions<unknown>, order: string): Promise<MemoryEvent[]> {
    const { connection } = this;
    const { rows } = (await connection.read(() =>
      connection.prepare(`${SELECT} ${where.sql} ${order})`).get(...(where.values as SqlValue[])),
    )) as { rows: string };
    return (JSON.parse(rows) as EventRow[]).map(fromRow);
  }

  async writeVectors(model: string, vectors: readonly EventVector[]): Promise<void> {
    await this.connection.write(() => {
      const statement = this.connection.prepare(INSERT_VECTOR);
      for (const { seq, vector } of vectors)
        statement.run(model, seq, new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength));
    });
  }

  async readVectors(model: string, { scope, afterPosition }: VectorQuery): Promise<StoredVector[]> {
    const columns = scopeColumns(scope);
    const sql = `SELECT position, seq, vector FROM memory_vector JOIN memory_event USING (seq) WHERE model = ? AND position > ?
      ${columns.map(({ column }) => `AND ${column} = ?`).join(' ')} ORDER BY position`;
    const values = [model, afterPosition, ...columns.map(({ value }) => value)];
    const rows = (await this.connection.read(() => this.connection.prepare(sql).all(...values))) as VectorRow[];
    return rows.map(({ vector, ...row }) => ({ ...row, vector: new Float32Array(vector.slice().buffer) }));
  }

  async readEpoch(): Promise<number> {
    const row = await this.connection.read(() => this.connection.prepare('SELECT epoch FROM memory_epoch').get());
    return (row as { epoch: number }).epoch;
  }

  async purge({ memoryIds, tombstones, rewritten }: Removal): Promise<void> {
    await this.connection.write(() => {
      const rows = 'IN (SELECT seq FROM memory_event WHERE memory_id = ?)';
      for (const id of memoryIds) {
        this.connection.prepare(`DELETE FROM memory_vector WHERE seq ${rows}`).run(id);
        this.connection.prepare('DELETE FROM memory_event WHERE memory_id = ?').run(id);
      }
      for (const event of rewritten) {
        this.connection.prepare('DELETE FROM memory_vector WHERE seq = ?').run(event.seq);
        this.connection.prepare(REWRITE).run(...toValues(event), event.seq);
      }
      this.connection.prepare('UPDATE memory_epoch SET epoch = epoch + 1').run();
      for (const event of tombstones) this.#insert(event);
    });
    await this.connection.truncateLog();
  }

  async reset(): Promise<void> {
    await this.connection.write(() => {
      for (const table of ['memory_vector', 'memory_event']) this.connection.prepare(`DELETE FROM ${table}`).run();
      this.connection.prepare('UPDATE memory_epoch SET epoch = epoch + 1').run();
    });
    await this.connection.truncateLog();
  }
}

type VectorRow = { readonly position: number; readonly seq: number; readonly vector: Uint8Array };

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
const memoryTables: SqliteTables = {
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
