import type { SqlValue } from '../../../storage/sqlite/sqlite-driver.ts';
import { EVENT_COLUMNS, type EventRow, fromRow, scopeColumns, scopeTokens, toRow, toToken } from '../event-row.ts';
import type { MemoryEvent, NewMemoryEvent } from '../memory-event.ts';
import type { MemoryScope } from '../memory-record.ts';
import {
  type AppendResult,
  type EventQuery,
  type EventVector,
  type Expectation,
  type IndexedEvent,
  MAX_RELATED,
  MAX_SERIES,
  type MemoryStorage,
  type RelatedQuery,
  type SeriesQuery,
  type StoredVector,
  type VectorQuery,
} from '../memory-storage.ts';
import { MemoryDatabase, type MemoryDatabaseOptions } from './memory-database.ts';

const INSERT = `INSERT INTO memory_event(${EVENT_COLUMNS.join(', ')}) VALUES (${EVENT_COLUMNS.map(() => '?').join(', ')})
  RETURNING seq`;
const HAS_KEY = 'SELECT 1 FROM memory_event WHERE key = ?';
const INDEX = 'INSERT INTO memory_terms(rowid, scope, terms) VALUES (?, ?, ?)';
const LAST_SEQ = 'SELECT max(seq) AS seq FROM memory_event WHERE memory_id = ?';
const POSTINGS = 'SELECT json_group_array(rowid) AS seqs FROM memory_terms WHERE memory_terms MATCH ?';
const INSERT_VECTOR = `INSERT INTO memory_vector(model, seq, vector) SELECT ?1, ?2, ?3
  WHERE EXISTS (SELECT 1 FROM memory_event WHERE seq = ?2) ON CONFLICT DO NOTHING`;
const SELECT = `SELECT seq, ${EVENT_COLUMNS.join(', ')} FROM memory_event`;

/** Where memories are kept by default. */
export const DEFAULT_PATH = 'memories/history.db';

/** How a memory file is opened. */
export type SqliteMemoryOptions = Partial<MemoryDatabaseOptions>;

/** Memory events in one SQLite file, which any number of processes may use at once. */
export class SqliteMemoryStorage implements MemoryStorage {
  readonly #database: MemoryDatabase;

  constructor({ path = DEFAULT_PATH, durability = 'power', busyTimeoutMs = 10_000 }: SqliteMemoryOptions = {}) {
    this.#database = new MemoryDatabase({ path, durability, busyTimeoutMs });
  }

  async append(events: readonly IndexedEvent[], expectations: readonly Expectation[] = []): Promise<AppendResult> {
    return this.#database.write(() => {
      const isMoved = expectations.some(({ memoryId, lastSeq }) => this.#lastSeq(memoryId) !== lastSeq);
      if (isMoved) return { status: 'moved' };
      if (events.some(({ event }) => this.#hasKey(event.key))) return { status: 'duplicate' };
      return { status: 'stored', events: events.map((event) => this.#insert(event)) };
    });
  }

  #lastSeq(memoryId: string): number {
    return (this.#database.prepare(LAST_SEQ).get(memoryId) as { seq: number | null }).seq ?? 0;
  }

  #hasKey(key: string | undefined): boolean {
    return key !== undefined && this.#database.prepare(HAS_KEY).get(key) !== undefined;
  }

  #insert({ event, terms }: IndexedEvent): MemoryEvent {
    const row = toRow(event);
    const values = EVENT_COLUMNS.map((column): SqlValue => row[column]);
    const { seq } = this.#database.prepare(INSERT).get(...values) as { seq: number };
    if (terms !== undefined) {
      const scope = scopeTokens(event.scope).join(' ');
      this.#database.prepare(INDEX).run(seq, scope, terms.map(toToken).join(' '));
    }
    return { ...event, seq };
  }

  async readEvents({ scope = {}, afterSeq = 0, memoryIds, sessionId }: EventQuery): Promise<MemoryEvent[]> {
    const where = ['seq > ?'];
    const values: SqlValue[] = [afterSeq];
    for (const { column, value } of scopeColumns(scope)) {
      where.push(`${column} = ?`);
      values.push(value);
    }
    if (memoryIds !== undefined) {
      where.push('memory_id IN (SELECT value FROM json_each(?))');
      values.push(JSON.stringify(memoryIds));
    }
    if (sessionId !== undefined) {
      where.push('session_id = ?');
      values.push(sessionId);
    }
    return this.#select(`${where.join(' AND ')} ORDER BY seq`, values);
  }

  async readRelated(query: RelatedQuery): Promise<MemoryEvent[]> {
    const found = new Map<number, MemoryEvent>();
    const limit = MAX_RELATED + query.keys.length + query.hashes.length;
    for (const { condition, values } of relatedConditions(query)) {
      const events = await this.#select(`${condition} ORDER BY seq DESC LIMIT ?`, [...values, limit]);
      for (const event of events) found.set(event.seq, event);
    }
    return [...found.values()].sort((a, b) => a.seq - b.seq);
  }

  async readSeries({ scope, sessionId }: SeriesQuery): Promise<MemoryEvent[]> {
    const { runId, ...owner } = scope;
    const isRun = sessionId === undefined;
    const { text, values } = checkedScope(isRun ? owner : scope);
    const series = isRun ? 'run_id = ? AND session_id IS NULL' : 'session_id = ?';
    const condition = `${series} AND kind = 'episode'${text} ORDER BY seq DESC LIMIT ${MAX_SERIES}`;
    return this.#select(condition, [sessionId ?? runId ?? null, ...values]);
  }

  async #select(condition: string, values: readonly SqlValue[]): Promise<MemoryEvent[]> {
    const rows = await this.#database.read(() => this.#database.prepare(`${SELECT} WHERE ${condition}`).all(...values));
    return (rows as (EventRow & { seq: number })[]).map(fromRow);
  }

  async readPostings(terms: readonly string[], scope: MemoryScope): Promise<Map<string, readonly number[]>> {
    const tokens = scopeTokens(scope).join(' AND ');
    return this.#database.read(() => {
      const statement = this.#database.prepare(POSTINGS);
      return new Map(
        terms.map((term) => {
          const { seqs } = statement.get(`{scope} : (${tokens}) AND {terms} : ${quote(term)}`) as {
            seqs: string;
          };
          return [term, JSON.parse(seqs) as number[]];
        }),
      );
    });
  }

  async writeVectors(model: string, vectors: readonly EventVector[]): Promise<void> {
    await this.#database.write(() => {
      const statement = this.#database.prepare(INSERT_VECTOR);
      for (const { seq, vector } of vectors) statement.run(model, seq, toBytes(vector));
    });
  }

  async readVectors(model: string, { scope, afterPosition }: VectorQuery): Promise<StoredVector[]> {
    const columns = scopeColumns(scope);
    const sql = `SELECT position, seq, vector FROM memory_vector JOIN memory_event USING (seq) WHERE model = ? AND position > ?
      ${columns.map(({ column }) => `AND ${column} = ?`).join(' ')} ORDER BY position`;
    const values = [model, afterPosition, ...columns.map(({ value }) => value)];
    const rows = (await this.#database.read(() => this.#database.prepare(sql).all(...values))) as VectorRow[];
    return rows.map(({ vector, ...row }) => ({ ...row, vector: fromBytes(vector) }));
  }

  async readEpoch(): Promise<number> {
    const row = await this.#database.read(() => this.#database.prepare('SELECT epoch FROM memory_epoch').get());
    return (row as { epoch: number }).epoch;
  }

  async purge(memoryIds: readonly string[], tombstones: readonly NewMemoryEvent[]): Promise<void> {
    await this.#database.write(() => {
      for (const id of memoryIds) this.#removeMemory(id);
      this.#database.prepare('UPDATE memory_epoch SET epoch = epoch + 1').run();
      for (const event of tombstones) this.#insert({ event });
    });
    await this.#emptyLog();
  }

  #removeMemory(memoryId: string): void {
    const rows = 'IN (SELECT seq FROM memory_event WHERE memory_id = ?)';
    this.#database.prepare(`DELETE FROM memory_terms WHERE rowid ${rows}`).run(memoryId);
    this.#database.prepare(`DELETE FROM memory_vector WHERE seq ${rows}`).run(memoryId);
    this.#database.prepare('DELETE FROM memory_event WHERE memory_id = ?').run(memoryId);
  }

  async reset(): Promise<void> {
    await this.#database.write(() => {
      for (const table of ['memory_vector', 'memory_terms', 'memory_event'])
        this.#database.prepare(`DELETE FROM ${table}`).run();
      this.#database.prepare('UPDATE memory_epoch SET epoch = epoch + 1').run();
    });
    await this.#emptyLog();
  }

  /** Removed words must not stay behind: terms are merged away, and the write-ahead log is emptied. */
  async #emptyLog(): Promise<void> {
    await this.#database.write(() =>
      this.#database.prepare("INSERT INTO memory_terms(memory_terms) VALUES ('optimize')").run(),
    );
    await this.#database.read(() => this.#database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all());
  }

  async close(): Promise<void> {
    await this.#database.close();
  }
}

type VectorRow = { readonly position: number; readonly seq: number; readonly vector: Uint8Array };

function quote(term: string): string {
  return `"${toToken(term)}"`;
}

function toBytes({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function fromBytes(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

type Condition = { readonly condition: string; readonly values: readonly SqlValue[] };

/** One condition for each part of the query that asks for something. */
function relatedConditions({ scope, keys, hashes, slots, kinds }: RelatedQuery): Condition[] {
  const inScope = checkedScope(scope);
  const scoped = (condition: string, ...values: readonly SqlValue[]): Condition => ({
    condition: condition + inScope.text,
    values: [...values, ...inScope.values],
  });
  const notEpisode = "kind IS NOT NULL AND kind <> 'episode'";
  return [
    ...(keys.length > 0 ? [{ condition: inList('key'), values: [JSON.stringify(keys)] }] : []),
    ...(hashes.length > 0 ? [scoped(inList('hash'), JSON.stringify(hashes))] : []),
    ...slots.map(({ subject, slot }) => scoped(`subject = ? AND slot = ? AND ${notEpisode}`, subject, slot)),
    ...kinds.map(({ subject, kind }) => scoped(`subject = ? AND kind = ? AND ${notEpisode}`, subject, kind)),
  ];
}

/** A scope as a condition to check rows by that another index finds: `+` keeps SQLite from walking through all that a user ever said. */
function checkedScope(scope: MemoryScope): { readonly text: string; readonly values: readonly SqlValue[] } {
  const columns = scopeColumns(scope);
  return {
    text: columns.map(({ column }) => ` AND +${column} = ?`).join(''),
    values: columns.map(({ value }) => value),
  };
}

const inList = (column: string) => `${column} IN (SELECT value FROM json_each(?))`;
