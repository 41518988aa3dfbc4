import { existsSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { StorageError } from '../../core/errors.ts';
import { openReadOnlyDatabase, type SqlDatabase } from './sqlite-driver.ts';
import { isWriteRefused } from './sqlite-error.ts';

/**
 * A database that may only be looked at. SQLite would write an index beside it even to read: so the file is opened as one that nobody
 * changes, and every look before and after a read makes sure of that. With a log beside it, the file alone is not the whole database:
 * then SQLite reads both, if there is the index too, which it need not write.
 */
export class ReadOnlyFile {
  readonly #path: string;
  readonly #opened: string;
  readonly #isLogRead: boolean;

  constructor(path: string) {
    this.#path = path;
    this.#opened = this.#look();
    this.#isLogRead = this.#hasLog() && existsSync(`${path}-shm`);
    this.check();
  }

  open(): SqlDatabase {
    return openReadOnlyDatabase(this.#isLogRead ? this.#path : `${pathToFileURL(this.#path)}?immutable=1`);
  }

  /** Throws a StorageError if somebody writes to it, and SQLite does not look at the log itself. */
  check(): void {
    if (!this.#isLogRead && (this.#look() !== this.#opened || this.#hasLog())) throw this.#refusal();
  }

  /** What to throw for an error at the opening: SQLite itself says only that it could not write. */
  explain(error: unknown): unknown {
    return this.#isLogRead && isWriteRefused(error) ? this.#refusal(error) : error;
  }

  #refusal(cause?: unknown): StorageError {
    return new StorageError(
      `The database ${this.#path} may not be written by you, and somebody else writes to it or left its log ${this.#path}-wal: it cannot be read safely without an index beside it. Copy ${this.#path} and ${this.#path}-wal into a folder that you may write, and open the copy.`,
      { details: { path: this.#path }, cause },
    );
  }

  #hasLog(): boolean {
    return (statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
  }

  #look(): string {
    const { ino, size, mtimeNs } = statSync(this.#path, { bigint: true });
    return `${ino} ${size} ${mtimeNs}`;
  }
}
