import type { Checkpoint, CheckpointMetadata, SerializerProtocol } from '@langchain/langgraph-checkpoint';
import type pg from 'pg';
import { CorruptError, InvalidInputError } from '../../../core/errors.ts';
import { loadPg } from '../../../storage/database/load-pg.ts';
import { toSavestateError } from '../../../storage/database/postgres-error.ts';
import { checkSchemaName } from '../../../storage/database/server-options.ts';
import { findSharedVersions } from './shared-versions.ts';
import type { SaverDatabaseOptions } from './sqlite-saver-database.ts';
import { decodeStored, decodeStoredWrites, defaultSerializer, parseContent, type StoredWrite } from './stored-value.ts';
import type {
  SourceContent,
  SourceEntry,
  SourceThread,
  SourceWrites,
  StrayWrites,
  ThreadSource,
} from './thread-source.ts';

/** Where the tables of a `PostgresSaver` are. */
export type PostgresSaverOptions = SaverDatabaseOptions & {
  readonly connectionString: string;
  /** Default `public`, as with the saver. */
  readonly schema?: string;
};

type StoredCheckpoint = Omit<Checkpoint, 'channel_values'> & {
  readonly channel_values?: { [channel: string]: unknown };
};
type EntryRow = {
  readonly namespace: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly versions: { readonly [channel: string]: string } | null;
};
type BlobRow = {
  readonly channel: string;
  readonly version: string;
  readonly type: string;
  readonly value: Buffer | null;
};

const COLUMNS = {
  checkpoints: ['thread_id', 'checkpoint_ns', 'checkpoint_id', 'parent_checkpoint_id', 'checkpoint', 'metadata'],
  checkpoint_blobs: ['thread_id', 'checkpoint_ns', 'channel', 'version', 'type', 'blob'],
  checkpoint_writes: ['thread_id', 'checkpoint_ns', 'checkpoint_id', 'task_id', 'idx', 'channel', 'type', 'blob'],
};

/** The type the saver gives channels that are empty at a version. */
const EMPTY = 'empty';

const HERE = 'thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3';

/**
 * Opens the tables of LangGraph's `PostgresSaver` for reading; the connection refuses every write. Throws a StorageError if the server
 * cannot be reached, an InvalidInputError if the tables are not there.
 */
export async function openPostgresSaverDatabase(options: PostgresSaverOptions): Promise<ThreadSource> {
  const { connectionString, schema = 'public', serde = defaultSerializer() } = options;
  checkSchemaName(schema);
  const client = new (loadPg().Client)({ connectionString });
  client.on('error', () => undefined); // the statement under way says what happened
  const database = new PostgresSaverDatabase(client, schema, serde);
  try {
    await database.open();
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

class PostgresSaverDatabase implements ThreadSource {
  readonly name: string;
  readonly #client: pg.Client;
  readonly #schema: string;
  readonly #serde: SerializerProtocol;
  /** The newest value read of each channel of a namespace: most checkpoints have most channels from their parents. */
  readonly #values = new Map<string, { readonly version: string; readonly value: unknown }>();
  #closing: Promise<void> | undefined;

  constructor(client: pg.Client, schema: string, serde: SerializerProtocol) {
    this.name = `The schema "${schema}"`;
    this.#client = client;
    this.#schema = schema;
    this.#serde = serde;
  }

  async open(): Promise<void> {
    try {
      await this.#client.connect();
    } catch (error) {
      throw toSavestateError(error, { place: 'The PostgreSQL server' });
    }
    await this.#query('SET default_transaction_read_only = on');
    const found = await this.#query<{ table: string; column: string }>(
      'SELECT table_name AS table, column_name AS column FROM information_schema.columns WHERE table_schema = $1',
      [this.#schema],
    );
    for (const [table, columns] of Object.entries(COLUMNS)) {
      const present = new Set(found.filter((row) => row.table === table).map(({ column }) => column));
      const missing = columns.filter((column) => !present.has(column));
      if (missing.length === 0) continue;
      const lack = present.size === 0 ? `has no table "${table}"` : `lacks ${missing.join(', ')} in "${table}"`;
      throw new InvalidInputError(
        `${this.name} is not that of a PostgresSaver of LangGraph: it ${lack}. Nothing was stored; check the address and the schema.`,
        { details: { schema: this.#schema, table, missing } },
      );
    }
  }

  /** `{s}` in the statement stands for the schema. */
  async #query<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    const text = sql.replaceAll('{s}', this.#client.escapeIdentifier(this.#schema));
    try {
      const { rows } = await this.#client.query<Row>(text, [...values]);
      return rows;
    } catch (error) {
      throw toSavestateError(error, { place: this.name });
    }
  }

  async listThreads(): Promise<readonly SourceThread[]> {
    return this.#query<SourceThread>(
      `SELECT thread_id AS "threadId", sum(n)::int AS checkpoints FROM (
         SELECT thread_id, 1 AS n FROM {s}.checkpoints UNION ALL SELECT DISTINCT thread_id, 0 FROM {s}.checkpoint_writes
       ) AS found GROUP BY thread_id ORDER BY thread_id`,
    );
  }

  async readEntries(threadId: string): Promise<readonly SourceEntry[]> {
    this.#values.clear();
    const rows = await this.#query<EntryRow>(
      `SELECT checkpoint_ns AS namespace, checkpoint_id AS id, parent_checkpoint_id AS "parentId",
              (SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(checkpoint -> 'channel_versions')) AS versions
         FROM {s}.checkpoints WHERE thread_id = $1`,
      [threadId],
    );
    const entries = rows.map(({ namespace, id, parentId }) => ({
      place: { threadId, namespace },
      id,
      parentId: parentId === null || parentId === '' || parentId === id ? undefined : parentId,
    }));
    const shared = findSharedVersions(entries.map((entry, at) => ({ ...entry, versions: rows[at]?.versions ?? {} })));
    return entries.map((entry, at) => ({ ...entry, doubts: shared[at] ?? [] }));
  }

  async findStrayWrites(threadId: string): Promise<readonly StrayWrites[]> {
    const rows = await this.#query<{ namespace: string; id: string; writes: number }>(
      `SELECT checkpoint_ns AS namespace, checkpoint_id AS id, count(*)::int AS writes
         FROM {s}.checkpoint_writes w WHERE thread_id = $1 AND NOT EXISTS (
           SELECT FROM {s}.checkpoints c
            WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)
        GROUP BY checkpoint_ns, checkpoint_id ORDER BY checkpoint_id`,
      [threadId],
    );
    return rows.map(({ namespace, id, writes }) => ({ place: { threadId, namespace }, id, writes }));
  }

  async readContent(entry: SourceEntry): Promise<SourceContent> {
    const { threadId, namespace } = entry.place;
    const [row] = await this.#query<{ checkpoint: StoredCheckpoint; metadata: CheckpointMetadata }>(
      `SELECT checkpoint, metadata FROM {s}.checkpoints WHERE ${HERE}`,
      [threadId, namespace, entry.id],
    );
    if (row === undefined) throw new CorruptError('The checkpoint was deleted while its thread was read.');
    const { checkpoint } = row;
    const values = await this.#readValues(entry, checkpoint.channel_versions ?? {});
    const [metadata, writes] = [await this.#decodeMetadata(row.metadata), await this.readWrites(entry)];
    // Savers in Python keep small values in the row itself.
    return parseContent({
      checkpoint: { ...checkpoint, channel_values: { ...checkpoint.channel_values, ...values } },
      metadata,
      writes,
    });
  }

  #decodeMetadata(metadata: unknown): Promise<unknown> {
    return decodeStored(this.#serde, { type: 'json', value: JSON.stringify(metadata) }, 'metadata');
  }

  async #readValues(
    { place: { threadId, namespace } }: SourceEntry,
    versions: { readonly [channel: string]: number | string },
  ): Promise<{ [channel: string]: unknown }> {
    const known = (channel: string) => this.#values.get(JSON.stringify([namespace, channel]));
    const asked = Object.entries(versions).map(([channel, version]) => [channel, String(version)] as const);
    const missing = asked.filter(([channel, version]) => known(channel)?.version !== version);
    const rows = await this.#query<BlobRow>(
      `SELECT b.channel, b.version, b.type, b.blob AS value
         FROM unnest($3::text[], $4::text[]) AS asked (channel, version) JOIN {s}.checkpoint_blobs b
           ON b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = asked.channel AND b.version = asked.version`,
      [threadId, namespace, missing.map(([channel]) => channel), missing.map(([, version]) => version)],
    );
    for (const { channel, version, type, value } of rows) {
      if (type === EMPTY) continue;
      const decoded = await decodeStored(this.#serde, { type, value }, `value of channel "${channel}"`);
      this.#values.set(JSON.stringify([namespace, channel]), { version, value: decoded });
    }
    return Object.fromEntries(
      asked.flatMap(([channel, version]) => {
        const found = known(channel);
        return found?.version === version ? [[channel, found.value]] : [];
      }),
    );
  }

  async readWrites({ place, id }: SourceEntry): Promise<SourceWrites> {
    const rows = await this.#query<StoredWrite>(
      `SELECT task_id AS "taskId", channel, type, blob AS value FROM {s}.checkpoint_writes WHERE ${HERE} ORDER BY task_id, idx`,
      [place.threadId, place.namespace, id],
    );
    return decodeStoredWrites(this.#serde, rows);
  }

  async measure(threadIds?: readonly string[]): Promise<number> {
    const tables = Object.keys(COLUMNS).map((table) =>
      threadIds === undefined
        ? `SELECT pg_total_relation_size(format('%I.%I', $1::text, '${table}')::regclass) AS bytes`
        : `SELECT coalesce(sum(pg_column_size(t.*)), 0) AS bytes FROM {s}.${table} t WHERE thread_id = ANY($1)`,
    );
    const sql = `SELECT sum(bytes)::float8 AS bytes FROM (${tables.join(' UNION ALL ')}) AS found`;
    const [row] = await this.#query<{ bytes: number }>(sql, [threadIds ?? this.#schema]);
    return row?.bytes ?? 0;
  }

  close(): Promise<void> {
    this.#closing ??= this.#client.end();
    return this.#closing;
  }
}
