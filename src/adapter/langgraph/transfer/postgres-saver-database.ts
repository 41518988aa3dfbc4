import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import type pg from 'pg';
import { loadPg } from '../../../storage/database/postgres-database.ts';
import { toSavestateError } from '../../../storage/database/postgres-error.ts';
import { checkSchemaName } from '../../../storage/database/server-options.ts';
import { HERE, SaverDatabase, type SaverDatabaseOptions, type SaverTables } from './saver-database.ts';
import type { SourceEntry, ThreadSource } from './thread-source.ts';

/** Where the tables of a `PostgresSaver` are. */
export type PostgresSaverOptions = SaverDatabaseOptions & {
  readonly connectionString: string;
  /** Default `public`, as with the saver. */
  readonly schema?: string;
};

type BlobRow = {
  readonly channel: string;
  readonly version: string;
  readonly type: string;
  readonly value: Buffer | null;
};

const PLACE = ['thread_id', 'checkpoint_ns'];

const TABLES: SaverTables = {
  saver: 'PostgresSaver',
  columns: {
    checkpoints: [...PLACE, 'checkpoint_id', 'parent_checkpoint_id', 'checkpoint', 'metadata'],
    checkpoint_blobs: [...PLACE, 'channel', 'version', 'type', 'blob'],
    checkpoint_writes: [...PLACE, 'checkpoint_id', 'task_id', 'idx', 'channel', 'type', 'blob'],
  },
  writes: { table: 'checkpoint_writes', value: 'blob' },
  versions: `(SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(checkpoint -> 'channel_versions'))`,
};

/** The type the saver gives channels that are empty at a version. */
const EMPTY = 'empty';

/**
 * Opens the tables of LangGraph's `PostgresSaver` for reading; the connection refuses every write. Throws a StorageError if the server
 * cannot be reached, an InvalidInputError if the tables are not there.
 */
export async function openPostgresSaverDatabase(options: PostgresSaverOptions): Promise<ThreadSource> {
  const { connectionString, schema = 'public' } = options;
  checkSchemaName(schema);
  const client = new (loadPg().Client)({ connectionString });
  client.on('error', () => undefined); // the statement under way says what happened
  const database = new PostgresSaverDatabase(client, schema, options);
  try {
    await database.open();
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

class PostgresSaverDatabase extends SaverDatabase {
  readonly #client: pg.Client;
  readonly #schema: string;
  /** The newest value read of each channel of a namespace: most checkpoints have most channels from their parents. */
  readonly #values = new Map<string, { readonly version: string; readonly value: unknown }>();
  #closing: Promise<void> | undefined;

  constructor(client: pg.Client, schema: string, options: SaverDatabaseOptions) {
    super(`The schema "${schema}"`, TABLES, options);
    this.#client = client;
    this.#schema = schema;
  }

  async open(): Promise<void> {
    try {
      await this.#client.connect();
    } catch (error) {
      throw toSavestateError(error, { place: 'The PostgreSQL server' });
    }
    await this.query('SET default_transaction_read_only = on');
    const sql =
      'SELECT table_name AS table, column_name AS column FROM information_schema.columns WHERE table_schema = $1';
    this.checkColumns(
      await this.query<{ table: string; column: string }>(sql, [this.#schema]),
      'the address and the schema',
    );
  }

  protected override async query<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    const text = sql.replaceAll('{s}', `${this.#client.escapeIdentifier(this.#schema)}.`);
    try {
      const { rows } = await this.#client.query<Row>(text, [...values]);
      return rows;
    } catch (error) {
      throw toSavestateError(error, { place: this.name });
    }
  }

  override readEntries(threadId: string): Promise<readonly SourceEntry[]> {
    this.#values.clear();
    return super.readEntries(threadId);
  }

  protected override async readStored({ place: { threadId, namespace }, id }: SourceEntry) {
    const [row] = await this.query<{ checkpoint: Partial<Checkpoint>; metadata: unknown }>(
      `SELECT checkpoint, metadata FROM {s}checkpoints WHERE ${HERE}`,
      [threadId, namespace, id],
    );
    if (row === undefined) return undefined;
    const { channel_values: small, channel_versions: versions = {} } = row.checkpoint;
    const asked = Object.entries(versions).map(([channel, version]) => [channel, String(version)] as const);
    await this.#readValues([threadId, namespace], asked);
    const values = asked.flatMap(([channel, version]) => {
      const found = this.#values.get(JSON.stringify([namespace, channel]));
      return found?.version === version ? [[channel, found.value]] : [];
    });
    return {
      // Savers in Python keep small values in the row itself.
      checkpoint: { ...row.checkpoint, channel_values: { ...small, ...Object.fromEntries(values) } },
      metadata: await this.decode('json', JSON.stringify(row.metadata), 'metadata'),
    };
  }

  async #readValues(
    [threadId, namespace]: readonly [string, string],
    asked: readonly (readonly [channel: string, version: string])[],
  ): Promise<void> {
    const nameOf = (channel: string) => JSON.stringify([namespace, channel]);
    const missing = asked.filter(([channel, version]) => this.#values.get(nameOf(channel))?.version !== version);
    const rows = await this.query<BlobRow>(
      `SELECT b.channel, b.version, b.type, b.blob AS value
         FROM unnest($3::text[], $4::text[]) AS asked (channel, version) JOIN {s}checkpoint_blobs b
           ON b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = asked.channel AND b.version = asked.version`,
      [threadId, namespace, missing.map(([channel]) => channel), missing.map(([, version]) => version)],
    );
    for (const { channel, version, type, value } of rows) {
      if (type === EMPTY) continue;
      const decoded = await this.decode(type, value, `value of channel "${channel}"`);
      this.#values.set(nameOf(channel), { version, value: decoded });
    }
  }

  override close(): Promise<void> {
    this.#closing ??= this.#client.end();
    return this.#closing;
  }
}
