import type pg from 'pg';
import { UnsupportedError } from '../../../core/errors.ts';
import { anything, type OptionChecks } from '../../../core/options.ts';
import { Conditions } from '../../../storage/database/conditions.ts';
import type { Connection } from '../../../storage/database/database-storage.ts';
import { PostgresDatabase, type Query } from '../../../storage/database/postgres-database.ts';
import { checkServerOptions, SERVER_CHECKS, type ServerOptions } from '../../../storage/database/server-options.ts';
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

const OPTIONS = { ...SERVER_CHECKS, tenant: { required: anything } } satisfies OptionChecks<PostgresMemoryOptions>;

const SELECT = `SELECT json_build_array(seq, ${EVENT_COLUMNS.join(', ')}) AS row FROM {s}.memory_event`;
const INSERT = `INSERT INTO {s}.memory_event(tenant, ${EVENT_COLUMNS.join(', ')})
  VALUES ($1, ${EVENT_COLUMNS.map((_, at) => `$${at + 2}`).join(', ')}) RETURNING seq::float8 AS seq`;
const REWRITE = `UPDATE {s}.memory_event SET (${EVENT_COLUMNS.join(', ')}) = (${EVENT_COLUMNS.map((_, at) => `$${at + 2}`).join(', ')})
  WHERE tenant = $1 AND seq = $${EVENT_COLUMNS.length + 2}`;
const IS_MOVED = `SELECT 1 FROM jsonb_to_recordset($2::jsonb) AS expected("memoryId" text, "lastSeq" bigint)
  WHERE "lastSeq" <> coalesce((SELECT max(seq) FROM {s}.memory_event WHERE tenant = $1 AND memory_id = "memoryId"), 0)`;
const IS_KNOWN = 'SELECT 1 FROM {s}.memory_event WHERE tenant = $1 AND (key = ANY($2) OR hash = ANY($3)) LIMIT 1';
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

  async append(events: readonly NewMemoryEvent[], conditions: AppendConditions = {}): Promise<AppendResult> {
    const { expectations = [], isNew = false } = conditions;
    const keys = events.flatMap(({ key }) => key ?? []);
    const hashes = isNew ? events.flatMap(({ fields }) => fields?.hash ?? []) : [];
    return this.#database.write(async (query): Promise<AppendResult> => {
      const moved = await query(IS_MOVED, [this.#tenant, JSON.stringify(expectations)]);
      if (moved.length > 0) return { status: 'moved' };
      const known = await query(IS_KNOWN, [this.#tenant, keys, hashes]);
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

  async purge({ memoryIds, tombstones, rewritten }: Removal): Promise<void> {
    await this.#database.write(async (query) => {
      await query('DELETE FROM {s}.memory_event WHERE tenant = $1 AND memory_id = ANY($2)', [this.#tenant, memoryIds]);
      await query('DELETE FROM {s}.memory_vector WHERE tenant = $1 AND seq = ANY($2)', [
        this.#tenant,
        rewritten.map(({ seq }) => seq),
      ]);
      for (const event of rewritten) await query(REWRITE, [this.#tenant, ...toValues(event), event.seq]);
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

const LOCK = "SELECT pg_advisory_xact_lock(hashtext('savestate memory ' || $1))";

/** Connections to the tables of memories, which are made at the first use. */
class PostgresMemoryDatabase extends PostgresDatabase {
  /** @internal */
  protected async setUp(client: pg.PoolClient): Promise<void> {
    await this.transactOn(client, async (query) => {
      await query(LOCK, [this.sql('{s}')]);
      await this.#migrate(query);
    });
  }

  /**
   * Runs several statements as one transaction. Writers of a schema take turns, so that the numbers of events grow in the order in
   * which they become visible: whoever has read one has read all before it. A write that may be stored is not tried again.
   */
  async write<Result>(work: (query: Query) => Promise<Result>): Promise<Result> {
    const inTurn = async (query: Query) => {
      await query(LOCK, [this.sql('{s}')]);
      return work(query);
    };
    return this.transact(inTurn, { exists: false, isFinal: true });
  }

  async #migrate(query: Query): Promise<void> {
    await query('CREATE SCHEMA IF NOT EXISTS {s}');
    const [found] = await query<{ exists: boolean }>("SELECT to_regclass('{s}.memory_version') IS NOT NULL AS exists");
    const [row] =
      found?.exists === true
        ? await query<{ version: number }>('SELECT max(version) AS version FROM {s}.memory_version')
        : [];
    if (row?.version === SCHEMA_VERSION) return;
    const statements = row === undefined ? SCHEMA : MIGRATIONS.get(row.version);
    if (statements === undefined)
      throw new UnsupportedError(
        `${this.place} has memory tables of version ${row?.version}; this release knows versions up to ${SCHEMA_VERSION}. Update savestate to use it.`,
      );
    for (const statement of statements) await query(statement);
  }
}

const SCHEMA_VERSION = 2;

/** Names compare byte by byte, whatever the language of the database. */
const NAME = 'text COLLATE "C"';

/**
 * The tables of memories on a server; `{s}` stands for the schema. Every row belongs to a tenant.
 */
const SCHEMA: readonly string[] = [
  `CREATE TABLE {s}.memory_event(
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant ${NAME} NOT NULL, memory_id ${NAME} NOT NULL, operation ${NAME} NOT NULL,
    user_id ${NAME}, agent_id ${NAME}, run_id ${NAME}, session_id ${NAME}, hash ${NAME}, subject ${NAME}, slot ${NAME}, kind ${NAME},
    key ${NAME}, at_ms double precision NOT NULL, content text, previous text, body text NOT NULL)`,
  'CREATE INDEX memory_event_memory ON {s}.memory_event(tenant, memory_id)',
  'CREATE INDEX memory_event_user ON {s}.memory_event(tenant, user_id, seq) WHERE user_id IS NOT NULL',
  'CREATE INDEX memory_event_agent ON {s}.memory_event(tenant, agent_id, seq) WHERE agent_id IS NOT NULL',
  'CREATE INDEX memory_event_run ON {s}.memory_event(tenant, run_id, seq) WHERE run_id IS NOT NULL',
  'CREATE INDEX memory_event_session ON {s}.memory_event(tenant, session_id, seq) WHERE session_id IS NOT NULL',
  'CREATE INDEX memory_event_hash ON {s}.memory_event(tenant, hash) WHERE hash IS NOT NULL',
  "CREATE INDEX memory_event_subject ON {s}.memory_event(tenant, subject, kind) WHERE kind <> 'episode'",
  'CREATE UNIQUE INDEX memory_event_key ON {s}.memory_event(tenant, key) WHERE key IS NOT NULL',
  `CREATE TABLE {s}.memory_vector(position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant ${NAME} NOT NULL, model ${NAME} NOT NULL,
    seq bigint NOT NULL REFERENCES {s}.memory_event ON DELETE CASCADE, vector bytea NOT NULL, UNIQUE (tenant, model, seq))`,
  `CREATE TABLE {s}.memory_epoch(tenant ${NAME} PRIMARY KEY, epoch bigint NOT NULL)`,
  `CREATE VIEW {s}.memory_history AS SELECT tenant, seq AS id, memory_id, previous AS previous_value,
    CASE WHEN operation <> 'RETRACT' THEN content END AS new_value,
    CASE operation WHEN 'RETRACT' THEN 'DELETE' ELSE operation END AS action,
    to_timestamp(at_ms / 1000) AS created_at, to_timestamp(at_ms / 1000) AS updated_at,
    operation IN ('RETRACT', 'PURGE') AS is_deleted, body::json ->> 'actor' AS actor_id, body::json -> 'fields' ->> 'trust' AS role
    FROM {s}.memory_event WHERE operation <> 'EXTRACT'`,
  'CREATE TABLE {s}.memory_version(version integer NOT NULL)',
  `INSERT INTO {s}.memory_version VALUES (${SCHEMA_VERSION})`,
];

const MIGRATIONS: ReadonlyMap<number, readonly string[]> = new Map([
  [1, ['ALTER TABLE {s}.memory_event DROP COLUMN terms', 'UPDATE {s}.memory_version SET version = 2']],
]);
