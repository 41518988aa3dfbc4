import type { SerializerProtocol } from '@langchain/langgraph-checkpoint';
import { CorruptError, InvalidInputError } from '../../../core/errors.ts';
import { decodeStored, decodeWrites, defaultSerializer, parseContent, type StoredWrite } from './stored-value.ts';
import type {
  SourceContent,
  SourceEntry,
  SourceThread,
  SourceWrites,
  StrayWrites,
  ThreadSource,
} from './thread-source.ts';

/** How a database of an official saver is read. */
export type SaverDatabaseOptions = {
  /** The serializer the saver was given; default LangGraph's own. */
  readonly serde?: SerializerProtocol;
};

/** What the database of one of LangGraph's savers is like. */
export type SaverTables = {
  /** As LangGraph calls the saver. */
  readonly saver: string;
  readonly columns: { readonly [table: string]: readonly string[] };
  readonly writes: { readonly table: string; readonly value: string };
  /** A column for the versions of the channels, if values are kept by version. */
  readonly versions?: string;
};

/** What is stored of a checkpoint, decoded. */
type Stored = { readonly checkpoint: unknown; readonly metadata: unknown };

type EntryRow = Pick<SourceEntry, 'id' | 'versions'> & { readonly namespace: string; readonly parentId: string | null };

/** One checkpoint of a thread and namespace, in a statement. */
export const HERE = 'thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3';

/** Reads the tables of LangGraph's SQL savers. */
export abstract class SaverDatabase implements ThreadSource {
  readonly name: string;
  readonly #tables: SaverTables;
  readonly #serde: SerializerProtocol;

  constructor(name: string, tables: SaverTables, { serde = defaultSerializer() }: SaverDatabaseOptions) {
    this.name = name;
    this.#tables = tables;
    this.#serde = serde;
  }

  /** Runs a statement with `$1` for its first value and `{s}` in front of tables. */
  protected abstract query<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;

  /** What the saver stored; undefined if it is gone. */
  protected abstract readStored(entry: SourceEntry): Promise<Stored | undefined>;

  abstract close(): Promise<void>;

  /** Throws an InvalidInputError if the columns are not those of the saver. */
  protected checkColumns(found: readonly { readonly table: string; readonly column: string }[], advice: string): void {
    const { saver, columns: needed } = this.#tables;
    for (const [table, columns] of Object.entries(needed)) {
      const present = new Set(found.filter((row) => row.table === table).map(({ column }) => column));
      const missing = columns.filter((column) => !present.has(column));
      if (missing.length === 0) continue;
      const lack =
        present.size === 0 ? `has no table "${table}"` : `lacks ${missing.join(', ')} in its table "${table}"`;
      throw new InvalidInputError(
        `${this.name} is no database of LangGraph's ${saver}: it ${lack}. Nothing was stored; check ${advice}.`,
        { details: { place: this.name, table, missing } },
      );
    }
  }

  protected decode(type: string | null, value: Uint8Array | string | null, what: string): Promise<unknown> {
    return decodeStored(this.#serde, { type, value }, what);
  }

  async listThreads(): Promise<readonly SourceThread[]> {
    const rows = await this.query<SourceThread>(
      `SELECT thread_id AS "threadId", CAST(sum(n) AS integer) AS checkpoints FROM (
         SELECT thread_id, 1 AS n FROM {s}checkpoints
         UNION ALL SELECT DISTINCT thread_id, 0 FROM {s}${this.#tables.writes.table}
       ) AS found GROUP BY thread_id ORDER BY thread_id`,
    );
    return rows.map(({ threadId, checkpoints }) => ({ threadId, checkpoints }));
  }

  async readEntries(threadId: string): Promise<readonly SourceEntry[]> {
    const rows = await this.query<EntryRow>(
      `SELECT checkpoint_ns AS namespace, checkpoint_id AS id, parent_checkpoint_id AS "parentId",
              ${this.#tables.versions ?? 'NULL'} AS versions
         FROM {s}checkpoints WHERE thread_id = $1`,
      [threadId],
    );
    return rows.map(({ namespace, id, parentId, versions }) => ({
      place: { threadId, namespace },
      id,
      // Where a run ended as it began, the saver made the checkpoint its own parent, and what was there is lost.
      parentId: parentId === null || parentId === '' || parentId === id ? undefined : parentId,
      versions: versions ?? undefined,
    }));
  }

  async findStrayWrites(threadId: string): Promise<readonly StrayWrites[]> {
    const rows = await this.query<{ namespace: string; id: string; writes: number }>(
      `SELECT checkpoint_ns AS namespace, checkpoint_id AS id, CAST(count(*) AS integer) AS writes
         FROM {s}${this.#tables.writes.table} AS w WHERE thread_id = $1 AND NOT EXISTS (
           SELECT 1 FROM {s}checkpoints AS c
            WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)
        GROUP BY checkpoint_ns, checkpoint_id ORDER BY checkpoint_id`,
      [threadId],
    );
    return rows.map(({ namespace, id, writes }) => ({ place: { threadId, namespace }, id, writes }));
  }

  async readContent(entry: SourceEntry): Promise<SourceContent> {
    const stored = await this.readStored(entry);
    if (stored === undefined) throw new CorruptError('The checkpoint was deleted while its thread was read.');
    return parseContent(stored, await this.readWrites(entry));
  }

  async readWrites({ place, id }: SourceEntry): Promise<SourceWrites> {
    const { table, value } = this.#tables.writes;
    const rows = await this.query<StoredWrite>(
      `SELECT task_id AS "taskId", channel, type, ${value} AS value FROM {s}${table} WHERE ${HERE} ORDER BY task_id, idx`,
      [place.threadId, place.namespace, id],
    );
    return decodeWrites(this.#serde, rows);
  }
}
