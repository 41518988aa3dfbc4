import { statSync } from 'node:fs';
import { changedFile } from './file-identity.ts';
import type { SqlDatabase, SqlStatement } from './sqlite-driver.ts';

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/**
 * The write-ahead log of an open database. If somebody cuts it, SQLite writes on where it stopped, so that everything after the cut is lost
 * at the next recovery. So its length is compared with what SQLite counts on. A look costs about four microseconds.
 */
export class SqliteLog {
  readonly #path: string;
  readonly #frameBytes: number;
  readonly #selectFrames: SqlStatement;
  readonly #selectVersion: SqlStatement;

  constructor(db: SqlDatabase, path: string) {
    this.#path = path;
    const { page_size: pageBytes } = db.prepare('PRAGMA page_size').get() as { page_size: number };
    this.#frameBytes = FRAME_HEADER_BYTES + pageBytes;
    // Changes nothing and takes no lock: it only counts.
    this.#selectFrames = db.prepare('PRAGMA wal_checkpoint(NOOP)');
    this.#selectVersion = db.prepare('PRAGMA data_version');
  }

  /** Throws a StorageError if the log was cut. Not inside a transaction. */
  check(): void {
    while (this.#isShort()) {
      // Other processes may empty the log at any time, even between the two looks. That changes the version first.
      const version = this.#version();
      if (this.#isShort() && this.#version() === version) throw changedFile(`${this.#path}-wal`, 'cut', 'none');
    }
  }

  #isShort(): boolean {
    const { log: frames } = this.#selectFrames.get() as { log: number };
    if (frames <= 0) return false;
    const found = statSync(`${this.#path}-wal`, { throwIfNoEntry: false });
    return found !== undefined && found.size < HEADER_BYTES + frames * this.#frameBytes;
  }

  #version(): number {
    return (this.#selectVersion.get() as { data_version: number }).data_version;
  }
}
