import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { StorageError } from '../../core/errors.ts';
import { openReadOnlyDatabase, type SqlDatabase } from './sqlite-driver.ts';

/**
 * A database that may only be looked at. SQLite would write an index beside it even to read: so the file is opened as one that nobody
 * changes, and every look before and after a read makes sure of that. With a log beside it, the file alone is not the whole database.
 */
export class ReadOnlyFile {
  readonly #path: string;
  readonly #opened: string;

  constructor(path: string) {
    this.#path = path;
    this.#opened = this.#look();
    this.check();
  }

  open(): SqlDatabase {
    return openReadOnlyDatabase(`${pathToFileURL(this.#path)}?immutable=1`);
  }

  /** Throws a StorageError if somebody writes to it. */
  check(): void {
    if (this.#look() === this.#opened && (statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0)
      return;
    throw new StorageError(
      `The database ${this.#path} may not be written by you, and somebody else writes to it or left its log ${this.#path}-wal: it cannot be read safely without an index beside it. Copy ${this.#path} and ${this.#path}-wal into a folder that you may write, and open the copy.`,
      { details: { path: this.#path } },
    );
  }

  #look(): string {
    const { ino, size, mtimeNs } = statSync(this.#path, { bigint: true });
    return `${ino} ${size} ${mtimeNs}`;
  }
}
