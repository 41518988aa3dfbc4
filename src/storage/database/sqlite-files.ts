import { type BigIntStats, statSync } from 'node:fs';
import { StorageError } from '../../core/errors.ts';
import type { SqlDatabase, SqlStatement } from './sqlite-driver.ts';

const LOG = '-wal';
const INDEX = '-shm';
const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** Whether what was asked for may be in a file: in the one that is gone, or in the one that is there. */
type Outcome = 'none' | 'unknown';

/**
 * The files of an open database. One that is deleted or replaced still takes writes, and all of them are gone with the process; a log
 * that is cut is written on where it stopped, so that everything after the cut is lost at the next recovery. Only a look at the paths
 * tells, which costs two or three microseconds each.
 */
export class SqliteFiles {
  readonly #path: string;
  readonly #opened: readonly { readonly suffix: string; readonly found: BigIntStats }[];
  readonly #frameBytes: bigint;
  readonly #selectFrames: SqlStatement;
  readonly #selectVersion: SqlStatement;
  /** The log as it was when it was last found whole. */
  #log: BigIntStats | undefined;

  /** Remembers the file at this path, its log and the index of that, as far as they are there. */
  constructor(db: SqlDatabase, path: string) {
    this.#path = path;
    this.#opened = ['', INDEX, LOG].flatMap((suffix) => {
      const found = lookAt(path + suffix);
      return found === undefined ? [] : [{ suffix, found }];
    });
    const { page_size: pageBytes } = db.prepare('PRAGMA page_size').get() as { page_size: number };
    this.#frameBytes = BigInt(FRAME_HEADER_BYTES + pageBytes);
    // Changes nothing and takes no lock: it only counts.
    this.#selectFrames = db.prepare('PRAGMA wal_checkpoint(NOOP)');
    this.#selectVersion = db.prepare('PRAGMA data_version');
  }

  /** Throws a StorageError if a file is not the one that was opened, or was cut. `unknown`: after a write, which only we made. */
  check(outcome: Outcome): void {
    const log = this.#checkPlaces(outcome);
    if (log !== undefined && this.#log !== undefined && log.size < this.#log.size) this.checkLog();
    if (outcome === 'unknown') this.#log = log;
  }

  /** Throws before anything is written to a log that was cut. One that nobody touched since the last look is whole. */
  checkBeforeWrite(): void {
    const now = lookAt(this.#path + LOG);
    if (now === undefined || (now.mtimeNs === this.#log?.mtimeNs && now.size === this.#log.size)) return;
    this.checkLog();
    this.#log = now;
  }

  /** Compares the length of the log with what SQLite counts on. Not inside a transaction. */
  checkLog(): void {
    while (this.#isLogShort()) {
      // Other processes may empty the log at any time, even between the two looks. That changes the version first.
      const version = this.#version();
      if (this.#isLogShort() && this.#version() === version) throw changedFile(this.#path + LOG, 'cut', 'none');
    }
  }

  /** Whether the files are still where they were opened. */
  areThere(): boolean {
    try {
      this.#checkPlaces('none');
      return true;
    } catch {
      return false;
    }
  }

  /** SQLite never makes the index shorter. Returns how the log is. */
  #checkPlaces(outcome: Outcome): BigIntStats | undefined {
    let log: BigIntStats | undefined;
    for (const { suffix, found } of this.#opened) {
      const now = lookAt(this.#path + suffix);
      const change = changeOf(found, now) ?? (suffix === INDEX && now && now.size < found.size ? 'cut' : undefined);
      if (change !== undefined) throw changedFile(this.#path + suffix, change, outcome);
      if (suffix === LOG) log = now;
    }
    return log;
  }

  #isLogShort(): boolean {
    const { log: frames } = this.#selectFrames.get() as { log: number };
    if (frames <= 0) return false;
    const found = lookAt(this.#path + LOG);
    return found !== undefined && found.size < BigInt(LOG_HEADER_BYTES) + BigInt(frames) * this.#frameBytes;
  }

  #version(): number {
    return (this.#selectVersion.get() as { data_version: number }).data_version;
  }
}

function changeOf(found: BigIntStats, now: BigIntStats | undefined): string | undefined {
  if (now === undefined) return 'deleted or moved';
  return now.ino === found.ino && now.dev === found.dev ? undefined : 'replaced by another file';
}

function changedFile(file: string, change: string, outcome: Outcome): StorageError {
  const effect = outcome === 'none' ? 'nothing is read from it or saved to it' : 'what was just saved may be lost';
  return new StorageError(
    `The file ${file} was ${change} while it was open, so ${effect}. Put the file back, or close the storage and open it again.`,
    { details: { path: file, ...(outcome === 'unknown' && { outcome }) } },
  );
}

function lookAt(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}
