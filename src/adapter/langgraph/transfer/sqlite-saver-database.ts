import type { SerializerProtocol } from '@langchain/langgraph-checkpoint';
import { CorruptError, InvalidInputError } from '../../../core/errors.ts';
import { SaverFile } from './saver-file.ts';
import { decodeStored, decodeStoredWrites, defaultSerializer, parseContent, type StoredWrite } from './stored-value.ts';
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

type EntryRow = { readonly namespace: string; readonly id: string; readonly parentId: string | null };
type ContentRow = {
  readonly type: string | null;
  readonly checkpoint: Uint8Array | string | null;
  readonly metadata: Uint8Array | string | null;
};

const COLUMNS = {
  checkpoints: [
    'thread_id',
    'checkpoint_ns',
    'checkpoint_id',
    'parent_checkpoint_id',
    'type',
    'checkpoint',
    'metadata',
  ],
  writes: ['thread_id', 'checkpoint_ns', 'checkpoint_id', 'task_id', 'idx', 'channel', 'type', 'value'],
};

const HERE = 'thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?';

/**
 * Opens a file of LangGraph's `SqliteSaver` for reading; no byte of it changes. Throws a StorageError if it cannot be opened, a
 * CorruptError if it is no database, an InvalidInputError if it is another program's.
 */
export function openSqliteSaverDatabase(path: string, options: SaverDatabaseOptions = {}): ThreadSource {
  const file = new SaverFile(path);
  try {
    checkTables(file);
  } catch (error) {
    file.close();
    throw error;
  }
  return new SqliteSaverDatabase(file, options.serde ?? defaultSerializer());
}

function checkTables(file: SaverFile): void {
  for (const [table, columns] of Object.entries(COLUMNS)) {
    const found = new Set(file.all<{ name: string }>(`PRAGMA table_info(${table})`).map(({ name }) => name));
    const missing = columns.filter((column) => !found.has(column));
    if (missing.length === 0) continue;
    const lack = found.size === 0 ? `has no table "${table}"` : `lacks ${missing.join(', ')} in its table "${table}"`;
    throw new InvalidInputError(
      `The file ${file.path} is no database of LangGraph's SqliteSaver: it ${lack}. Nothing was stored; check the path.`,
      { details: { path: file.path, table, missing } },
    );
  }
}

class SqliteSaverDatabase implements ThreadSource {
  readonly name: string;
  readonly #file: SaverFile;
  readonly #serde: SerializerProtocol;
  #isClosed = false;

  constructor(file: SaverFile, serde: SerializerProtocol) {
    this.name = file.path;
    this.#file = file;
    this.#serde = serde;
  }

  async listThreads(): Promise<readonly SourceThread[]> {
    const rows = this.#file.all<SourceThread>(
      `SELECT thread_id AS threadId, sum(n) AS checkpoints FROM (
         SELECT thread_id, 1 AS n FROM checkpoints UNION ALL SELECT DISTINCT thread_id, 0 FROM writes
       ) GROUP BY thread_id ORDER BY thread_id`,
    );
    return rows.map(({ threadId, checkpoints }) => ({ threadId, checkpoints }));
  }

  async readEntries(threadId: string): Promise<readonly SourceEntry[]> {
    const rows = this.#file.all<EntryRow>(
      'SELECT checkpoint_ns AS namespace, checkpoint_id AS id, parent_checkpoint_id AS parentId FROM checkpoints WHERE thread_id = ?',
      threadId,
    );
    return rows.map(({ namespace, id, parentId }) => ({
      place: { threadId, namespace },
      id,
      // Where a run ended as it began, the saver made the checkpoint its own parent, and what was there is lost.
      parentId: parentId === null || parentId === '' || parentId === id ? undefined : parentId,
    }));
  }

  async findStrayWrites(threadId: string): Promise<readonly StrayWrites[]> {
    const rows = this.#file.all<{ namespace: string; id: string; writes: number }>(
      `SELECT checkpoint_ns AS namespace, checkpoint_id AS id, count(*) AS writes FROM writes w WHERE thread_id = ? AND NOT EXISTS (
         SELECT 1 FROM checkpoints c
          WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id
       ) GROUP BY checkpoint_ns, checkpoint_id ORDER BY checkpoint_id`,
      threadId,
    );
    return rows.map(({ namespace, id, writes }) => ({ place: { threadId, namespace }, id, writes }));
  }

  async readContent(entry: SourceEntry): Promise<SourceContent> {
    const { threadId, namespace } = entry.place;
    const sql = `SELECT type, checkpoint, metadata FROM checkpoints WHERE ${HERE}`;
    const [row] = this.#file.all<ContentRow>(sql, threadId, namespace, entry.id);
    if (row === undefined) throw new CorruptError('The checkpoint was deleted while its thread was read.');
    const { type } = row;
    return parseContent({
      checkpoint: await decodeStored(this.#serde, { type, value: row.checkpoint }, 'checkpoint'),
      metadata: await decodeStored(this.#serde, { type, value: row.metadata }, 'metadata'),
      writes: await this.readWrites(entry),
    });
  }

  async readWrites({ place, id }: SourceEntry): Promise<SourceWrites> {
    const sql = `SELECT task_id AS taskId, channel, type, value FROM writes WHERE ${HERE} ORDER BY task_id, idx`;
    const rows = this.#file.all<StoredWrite>(sql, place.threadId, place.namespace, id);
    return decodeStoredWrites(this.#serde, rows);
  }

  async measure(threadIds?: readonly string[]): Promise<number> {
    if (threadIds === undefined) return this.#file.sizeBytes();
    const sql = `SELECT (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints WHERE thread_id = ?1)
                      + (SELECT coalesce(sum(length(value)), 0) FROM writes WHERE thread_id = ?1) AS bytes`;
    return threadIds
      .map((threadId) => this.#file.all<{ bytes: number }>(sql, threadId)[0]?.bytes ?? 0)
      .reduce((sum, bytes) => sum + bytes, 0);
  }

  async close(): Promise<void> {
    if (!this.#isClosed) this.#file.close();
    this.#isClosed = true;
  }
}
