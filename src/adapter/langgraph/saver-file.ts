import { existsSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { StorageError } from '../../core/errors.ts';
import { openReadOnlyDatabase, type SqlDatabase } from '../../storage/sqlite/sqlite-driver.ts';
import { toSavestateError } from '../../storage/sqlite/sqlite-error.ts';

/** A SQLite file that is read and not touched: no byte of it changes, and nothing appears beside it. */
export class SaverFile {
  readonly path: string;
  readonly #db: SqlDatabase;
  /** What the file was when it was opened; undefined if others have it open, so that SQLite keeps us apart. */
  readonly #stamp: string | undefined;

  constructor(path: string) {
    this.path = path;
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
      throw toSavestateError(error, this.path);
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
