import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { CorruptError, type SavestateError, StorageError } from '../../../core/errors.ts';
import { openReadOnlyDatabase, type SqlDatabase } from '../../../storage/database/sqlite-driver.ts';
import { toSavestateError } from '../../../storage/database/sqlite-error.ts';
import { HERE, SaverDatabase, type SaverDatabaseOptions, type SaverTables } from './saver-database.ts';
import type { SourceEntry, ThreadSource } from './thread-source.ts';

type Bytes = Uint8Array | string | null;

const PLACE = ['thread_id', 'checkpoint_ns', 'checkpoint_id'];

const TABLES: SaverTables = {
  saver: 'SqliteSaver',
  columns: {
    checkpoints: [...PLACE, 'parent_checkpoint_id', 'type', 'checkpoint', 'metadata'],
    writes: [...PLACE, 'task_id', 'idx', 'channel', 'type', 'value'],
  },
  writes: { table: 'writes', value: 'value' },
};

const SQLITE_CORRUPT = 11;

/**
 * Opens a file of LangGraph's `SqliteSaver` for reading; no byte of it changes. Throws a StorageError if it cannot be opened, a
 * CorruptError if it is no database, an InvalidInputError if it is another program's.
 */
export function openSqliteSaverDatabase(path: string, options: SaverDatabaseOptions = {}): ThreadSource {
  const database = new SqliteSaverDatabase(path, options);
  try {
    database.check();
  } catch (error) {
    database.end();
    throw error;
  }
  return database;
}

/** A SQLite file that is read and not touched: no byte of it changes, and nothing appears beside it. */
class SqliteSaverDatabase extends SaverDatabase {
  readonly #path: string;
  readonly #db: SqlDatabase;
  /** What the file was when it was opened; undefined if others have it open, so that SQLite keeps us apart. */
  readonly #stamp: string | undefined;
  #isClosed = false;

  constructor(path: string, options: SaverDatabaseOptions) {
    super(`The file ${path}`, TABLES, options);
    this.#path = path;
    checkReadable(path);
    const stamp = isInUse(path) ? undefined : stampOf(path);
    const quiet = stamp === undefined ? undefined : openQuietly(path);
    this.#stamp = quiet === undefined ? undefined : stamp;
    this.#db = quiet ?? guard(path, () => openReadOnlyDatabase(path));
  }

  check(): void {
    const sql = `SELECT m.name AS "table", c.name AS "column" FROM sqlite_master AS m, pragma_table_info(m.name) AS c`;
    this.checkColumns(this.#all<{ table: string; column: string }>(sql), 'the path');
  }

  #all<Row extends object>(sql: string, values: readonly unknown[] = []): Row[] {
    const text = sql.replaceAll('{s}', '').replaceAll('$', '?');
    const rows = guard(this.#path, () => this.#db.prepare(text).all(...(values as readonly string[])));
    if (this.#stamp === undefined || (stampOf(this.#path) === this.#stamp && !isInUse(this.#path)))
      return rows as Row[];
    throw new StorageError(
      `Another process began to write to ${this.#path} while it was read. What was stored until now is right; run this again for the rest.`,
      { details: { path: this.#path } },
    );
  }

  protected override async query<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]> {
    return this.#all(sql, values);
  }

  protected override async readStored({ place, id }: SourceEntry) {
    const [row] = this.#all<{ type: string | null; checkpoint: Bytes; metadata: Bytes }>(
      `SELECT type, checkpoint, metadata FROM checkpoints WHERE ${HERE}`,
      [place.threadId, place.namespace, id],
    );
    if (row === undefined) return undefined;
    return {
      checkpoint: await this.decode(row.type, row.checkpoint, 'checkpoint'),
      metadata: await this.decode(row.type, row.metadata, 'metadata'),
    };
  }

  end(): void {
    if (!this.#isClosed) this.#db.close();
    this.#isClosed = true;
  }

  override async close(): Promise<void> {
    this.end();
  }
}

function guard<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw explain(toSavestateError(error, path), path);
  }
}

/** The advice of our own storages does not fit: their tools do not know this file. */
function explain(error: SavestateError, path: string): SavestateError {
  if (error.details.sqliteCode !== SQLITE_CORRUPT) return error;
  const { cause, details } = error;
  return new CorruptError(
    `The file ${path} is damaged or cut short: SQLite cannot read all of it. Bring it back from a backup, or make a new file of what is left (sqlite3 ${path} .recover), and import that.`,
    { cause, details },
  );
}

/** SQLite says the same of a folder, of a file that may not be read, and of a disk that fails. */
function checkReadable(path: string): void {
  const lack = findLack(path);
  if (lack === undefined) return;
  throw new StorageError(
    `The file ${path} cannot be opened as a database of LangGraph's SqliteSaver: ${lack}. Nothing was stored.`,
    { details: { path } },
  );
}

function findLack(path: string): string | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return 'there is no such file; check the path';
    if (found.isDirectory()) return 'it is a folder; name the file in it';
    accessSync(path, constants.R_OK);
    return undefined;
  } catch (error) {
    return `it may not be read (${(error as Error).message}); change its permissions, or run this as another user`;
  }
}

/** Others that have a database open, or were killed, leave one of these beside it. */
function isInUse(path: string): boolean {
  return existsSync(`${path}-wal`) || existsSync(`${path}-journal`);
}

function stampOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.ino} ${found.size} ${found.mtimeNs}`;
}

/** Opens a file that nobody else has open without the files that SQLite makes beside it; undefined where SQLite is too old for that. */
function openQuietly(path: string): SqlDatabase | undefined {
  try {
    return openReadOnlyDatabase(`${pathToFileURL(path).href}?immutable=1`);
  } catch {
    return undefined; // opening it in the ordinary way tells why, if that fails too
  }
}
