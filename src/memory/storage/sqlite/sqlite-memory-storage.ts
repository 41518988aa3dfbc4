import { checkOptions } from '../../../core/options.ts';
import { Conditions } from '../../../storage/database/conditions.ts';
import { SQLITE_CHECKS, SqliteConnection, type SqliteOptions } from '../../../storage/database/sqlite-connection.ts';
import type { SqlValue } from '../../../storage/database/sqlite-driver.ts';
import { EVENT_COLUMNS, type EventRow, fromRow, scopeColumns, toValues } from '../event-row.ts';
import type { MemoryScope } from '../memory-record.ts';
import type {
  AppendResult,
  EventVector,
  Expectation,
  MemoryEvent,
  MemoryStorage,
  NewMemoryEvent,
  StoredVector,
  VectorQuery,
} from '../memory-storage.ts';
import { SqlMemoryReader } from '../sql-memory-reader.ts';
import { memoryTables } from './memory-schema.ts';

const INSERT = `INSERT INTO memory_event(${EVENT_COLUMNS.join(', ')}) VALUES (${EVENT_COLUMNS.map(() => '?').join(', ')})`;
const HAS_KEY = 'SELECT 1 FROM memory_event WHERE key = ?';
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

  async append(events: readonly NewMemoryEvent[], expectations: readonly Expectation[] = []): Promise<AppendResult> {
    return this.connection.write(() => {
      const isMoved = expectations.some(({ memoryId, lastSeq }) => this.#lastSeq(memoryId) !== lastSeq);
      if (isMoved) return { status: 'moved' };
      if (events.some(({ key }) => this.#hasKey(key))) return { status: 'duplicate' };
      return { status: 'stored', events: events.map((event) => this.#insert(event)) };
    });
  }

  #lastSeq(memoryId: string): number {
    return (this.connection.prepare(LAST_SEQ).get(memoryId) as { seq: number | null }).seq ?? 0;
  }

  #hasKey(key: string | undefined): boolean {
    return key !== undefined && this.connection.prepare(HAS_KEY).get(key) !== undefined;
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
      for (const { seq, vector } of vectors) statement.run(model, seq, toBytes(vector));
    });
  }

  async readVectors(model: string, { scope, afterPosition }: VectorQuery): Promise<StoredVector[]> {
    const columns = scopeColumns(scope);
    const sql = `SELECT position, seq, vector FROM memory_vector JOIN memory_event USING (seq) WHERE model = ? AND position > ?
      ${columns.map(({ column }) => `AND ${column} = ?`).join(' ')} ORDER BY position`;
    const values = [model, afterPosition, ...columns.map(({ value }) => value)];
    const rows = (await this.connection.read(() => this.connection.prepare(sql).all(...values))) as VectorRow[];
    return rows.map(({ vector, ...row }) => ({ ...row, vector: fromBytes(vector) }));
  }

  async readEpoch(): Promise<number> {
    const row = await this.connection.read(() => this.connection.prepare('SELECT epoch FROM memory_epoch').get());
    return (row as { epoch: number }).epoch;
  }

  async purge(memoryIds: readonly string[], tombstones: readonly NewMemoryEvent[]): Promise<void> {
    await this.connection.write(() => {
      for (const id of memoryIds) this.#removeMemory(id);
      this.connection.prepare('UPDATE memory_epoch SET epoch = epoch + 1').run();
      for (const event of tombstones) this.#insert(event);
    });
    await this.connection.truncateLog();
  }

  #removeMemory(memoryId: string): void {
    const rows = 'IN (SELECT seq FROM memory_event WHERE memory_id = ?)';
    this.connection.prepare(`DELETE FROM memory_vector WHERE seq ${rows}`).run(memoryId);
    this.connection.prepare('DELETE FROM memory_event WHERE memory_id = ?').run(memoryId);
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

function toBytes({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function fromBytes(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}
