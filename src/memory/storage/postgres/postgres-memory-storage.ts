import { anything, type OptionChecks } from '../../../core/options.ts';
import { Conditions } from '../../../storage/database/conditions.ts';
import type { Connection } from '../../../storage/database/database-storage.ts';
import type { Query } from '../../../storage/database/postgres-database.ts';
import { checkServerOptions, SERVER_CHECKS, type ServerOptions } from '../../../storage/database/server-options.ts';
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
import { PostgresMemoryDatabase } from './postgres-memory-database.ts';

const OPTIONS = { ...SERVER_CHECKS, tenant: { required: anything } } satisfies OptionChecks<PostgresMemoryOptions>;

const SELECT = `SELECT json_build_array(seq, ${EVENT_COLUMNS.join(', ')}) AS row FROM {s}.memory_event`;
const INSERT = `INSERT INTO {s}.memory_event(tenant, ${EVENT_COLUMNS.join(', ')})
  VALUES ($1, ${EVENT_COLUMNS.map((_, at) => `$${at + 2}`).join(', ')}) RETURNING seq::float8 AS seq`;
const IS_MOVED = `SELECT 1 FROM jsonb_to_recordset($2::jsonb) AS expected("memoryId" text, "lastSeq" bigint)
  WHERE "lastSeq" <> coalesce((SELECT max(seq) FROM {s}.memory_event WHERE tenant = $1 AND memory_id = "memoryId"), 0)`;
const WRITE_VECTORS = `INSERT INTO {s}.memory_vector(tenant, model, seq, vector)
  SELECT $1, $2, given.seq, given.vector FROM unnest($3::bigint[], $4::bytea[]) AS given(seq, vector)
  JOIN {s}.memory_event USING (seq) WHERE tenant = $1 ON CONFLICT DO NOTHING`;

/** How memories on a PostgreSQL server are opened. */
export type PostgresMemoryOptions = ServerOptions & {
  /** Whose memories these are; nothing of other tenants is read or changed. */
  readonly tenant: string;
};

/** Memory events on a PostgreSQL server, for any number of processes and machines. */
export class PostgresMemoryStorage extends SqlMemoryReader<Connection> implements MemoryStorage {
  /** Private, so that types hold without the package `pg`. */
  readonly #server: PostgresMemoryDatabase;
  readonly #tenant: string;

  constructor(options: PostgresMemoryOptions) {
    checkServerOptions(options, OPTIONS, 'PostgresMemoryStorage');
    const server = new PostgresMemoryDatabase(options, options.schema ?? 'savestate_memory');
    super(server);
    this.#server = server;
    this.#tenant = options.tenant;
  }

  get #database(): PostgresMemoryDatabase {
    this.checkOpen();
    return this.#server;
  }

  async append(events: readonly NewMemoryEvent[], expectations: readonly Expectation[] = []): Promise<AppendResult> {
    return this.#database.write(async (query): Promise<AppendResult> => {
      const moved = await query(IS_MOVED, [this.#tenant, JSON.stringify(expectations)]);
      if (moved.length > 0) return { status: 'moved' };
      const keys = events.flatMap(({ key }) => key ?? []);
      const known = await query('SELECT 1 FROM {s}.memory_event WHERE tenant = $1 AND key = ANY($2)', [
        this.#tenant,
        keys,
      ]);
      if (known.length > 0) return { status: 'duplicate' };
      const stored: MemoryEvent[] = [];
      for (const event of events) stored.push(await this.#insert(query, event));
      return { status: 'stored', events: stored };
    });
  }

  async #insert(query: Query, event: NewMemoryEvent): Promise<MemoryEvent> {
    const [inserted] = await query<{ seq: number }>(INSERT, [this.#tenant, ...toValues(event)]);
    return { ...event, seq: (inserted as { seq: number }).seq };
  }

  /** @internal */
  protected where(scope: MemoryScope, table = ''): Conditions<unknown> {
    const where = new Conditions<unknown>('$').add(`${table}tenant = ?`, this.#tenant);
    for (const { column, value } of scopeColumns(scope)) where.add(`${column} = ?`, value);
    return where;
  }

  /** @internal */
  protected among(where: Conditions<unknown>, column: string, values: readonly string[]): Conditions<unknown> {
    return where.add(`${column} = ANY(?)`, values);
  }

  /** @internal */
  protected async select(where: Conditions<unknown>, order: string): Promise<MemoryEvent[]> {
    const rows = await this.#database.read<{ row: EventRow }>(`${SELECT} ${where.sql} ${order}`, where.values);
    return rows.map(({ row }) => fromRow(row));
  }

  async writeVectors(model: string, vectors: readonly EventVector[]): Promise<void> {
    const seqs = vectors.map(({ seq }) => seq);
    const bytes = vectors.map(({ vector }) => Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength));
    await this.#database.write((query) => query(WRITE_VECTORS, [this.#tenant, model, seqs, bytes]));
  }

  async readVectors(model: string, { scope, afterPosition }: VectorQuery): Promise<StoredVector[]> {
    const where = this.where(scope, 'e.').add('model = ?', model).add('position > ?', afterPosition);
    const rows = await this.#database.read<{ position: number; seq: number; vector: Buffer }>(
      `SELECT position::float8 AS position, seq::float8 AS seq, vector FROM {s}.memory_vector v JOIN {s}.memory_event e USING (seq)
        ${where.sql} ORDER BY position`,
      where.values,
    );
    return rows.map(({ vector, ...row }) => ({ ...row, vector: new Float32Array(new Uint8Array(vector).buffer) }));
  }

  async readEpoch(): Promise<number> {
    const sql = 'SELECT epoch::float8 AS epoch FROM {s}.memory_epoch WHERE tenant = $1';
    return (await this.#database.read<{ epoch: number }>(sql, [this.#tenant]))[0]?.epoch ?? 0;
  }

  async purge(memoryIds: readonly string[], tombstones: readonly NewMemoryEvent[]): Promise<void> {
    await this.#database.write(async (query) => {
      await query('DELETE FROM {s}.memory_event WHERE tenant = $1 AND memory_id = ANY($2)', [this.#tenant, memoryIds]);
      await this.#nextEpoch(query);
      for (const event of tombstones) await this.#insert(query, event);
    });
  }

  async reset(): Promise<void> {
    await this.#database.write(async (query) => {
      await query('DELETE FROM {s}.memory_event WHERE tenant = $1', [this.#tenant]);
      await this.#nextEpoch(query);
    });
  }

  async #nextEpoch(query: Query): Promise<void> {
    await query(
      'INSERT INTO {s}.memory_epoch AS known VALUES ($1, 1) ON CONFLICT (tenant) DO UPDATE SET epoch = known.epoch + 1',
      [this.#tenant],
    );
  }
}
