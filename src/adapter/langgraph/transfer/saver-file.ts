import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { CorruptError, type SavestateError, StorageError } from '../../../core/errors.ts';
import { openReadOnlyDatabase, type SqlDatabase } from '../../../storage/database/sqlite-driver.ts';
import { toSavestateError } from '../../../storage/database/sqlite-error.ts';

const SQLITE_CORRUPT = 11;

/** A SQLite file that is read and not touched: no byte of it changes, and nothing appears beside it. */
export class SaverFile {
  readonly path: string;
  readonly #db: SqlDatabase;
  /** What the file was when it was opened; undefined if others have it open, so that SQLite keeps us apart. */
  readonly #stamp: string | undefined;

  constructor(path: string) {
    this.path = path;
    checkReadable(path);
    const stamp = isInUse(path) ? undefined : stampOf(path);
    const quiet = stamp === undefined ? undefined : openQuietly(path);
    this.#stamp = quiet === undefined ? undefined : stamp;
    this.#db = quiet ?? this.#guard(() => openReadOnlyDatabase(path));
  }

  all<Row>(sql: string, ...values: readonly string[]): Row[] {
    const rows = this.#guard(() => this.#db.prepare(sql).all(...values));
    if (this.#stamp !== undefined) this.#checkUntouched(this.#stamp);
    return rows as Row[];
  }

  #checkUntouched(stamp: string): void {
    if (stampOf(this.path) === stamp && !isInUse(this.path)) return;
    throw new StorageError(
      `Another process began to write to ${this.path} while it was read. What was stored until now is right; run this again for the rest.`,
      { details: { path: this.path } },
    );
  }

  #guard<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      throw explain(toSavestateError(error, this.path), this.path);
    }
  }

  /** What the file takes up, with what its log holds. */
  sizeBytes(): number {
    return [this.path, `${this.path}-wal`].reduce((sum, path) => sum + (existsSync(path) ? statSync(path).size : 0), 0);
  }

  close(): void {
    this.#db.close();
  }
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

/** The advice of our own storages does not fit: their tools do not know this file. */
function explain(error: SavestateError, path: string): SavestateError {
  if (error.details.sqliteCode !== SQLITE_CORRUPT) return error;
  const { cause, details } = error;
  return new CorruptError(
    `The file ${path} is damaged or cut short: SQLite cannot read all of it. Bring it back from a backup, or make a new file of what is left (sqlite3 ${path} .recover), and import that.`,
    { cause, details },
  );
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
