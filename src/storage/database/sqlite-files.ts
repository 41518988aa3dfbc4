import { closeSync, openSync, readFileSync, readSync, type Stats, statSync, truncateSync } from 'node:fs';
import { CorruptError, InvalidInputError, StorageError } from '../../core/errors.ts';
import type { SqlDatabase, SqlStatement } from './sqlite-driver.ts';
import { isBusy } from './sqlite-error.ts';

const LOG = '-wal';
const INDEX = '-shm';
const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
/** The page at this byte of a database is never written: SQLite has its locks there. */
const LOCK_BYTE = 0x4000_0000;

/** SQLite takes a file of one byte for an empty one, because on some systems it makes such files itself, with the first byte of its name. */
export function checkOneByte(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.size !== 1 || readFileSync(path, 'latin1') === 'S') return;
  throw new InvalidInputError(`${path} is not a SQLite database. Choose another path; the file was left as it is.`, {
    details: { path },
  });
}

/**
 * Throws if a file is gone or has no bytes and its log has some: SQLite would make a new database and drop the log. Who makes a database
 * fills the file first, so the log is looked at first.
 */
export function checkNotEmptied(path: string): void {
  const log = lookAt(path + LOG);
  if (log === undefined || log.size === 0 || (lookAt(path)?.size ?? 0) !== 0) return;
  throw new CorruptError(
    `The file ${path} is empty or gone, and its log ${path}${LOG} is not: the file was cut, moved or replaced. Restore both from a backup; to begin anew, move the log away.`,
    { details: { path } },
  );
}

/** What the directory says of a file. */
type Look = Pick<Stats, 'dev' | 'size' | 'mtimeMs'> & { readonly ino: number | bigint };

/** Whether what was asked for may be in a file: in the one that is gone, or in the one that is there. */
export type Outcome = 'none' | 'unknown';

/**
 * The files of an open database. One that is deleted or replaced still takes writes, and all of them are gone with the process; a log
 * that is cut is written on where it stopped, so that everything after the cut is lost at the next recovery; pages cut from the file itself
 * are missed only when they are read. Only a look at the paths tells, which costs two or three microseconds each.
 */
export class SqliteFiles {
  readonly #path: string;
  readonly #opened: readonly { readonly suffix: string; readonly found: Look }[];
  readonly #pageBytes: number;
  readonly #isCounted: boolean;
  readonly #selectFrames: SqlStatement;
  readonly #selectVersion: SqlStatement;
  readonly #selectPages: SqlStatement;
  /** The file as it was when it was last found whole. */
  #file: Look | undefined;
  /** The log as it was when it was last found whole. */
  #log: Look | undefined;
  /** The greatest length that the index of the log has had. SQLite never makes it shorter. */
  #indexBytes = 0;

  /** Remembers the file at this path, its log and the index of that, as far as they are there. Who may only read cannot count the log. */
  constructor(db: SqlDatabase, path: string, { isCounted }: { readonly isCounted: boolean }) {
    this.#path = path;
    this.#isCounted = isCounted;
    this.#opened = ['', INDEX, LOG].flatMap((suffix) => {
      const found = lookAt(path + suffix);
      return found === undefined ? [] : [{ suffix, found }];
    });
    const { page_size: pageBytes } = db.prepare('PRAGMA page_size').get() as { page_size: number };
    this.#pageBytes = pageBytes;
    this.#file = this.#opened.find(({ suffix }) => suffix === '')?.found;
    // Changes nothing and takes no lock: it only counts.
    this.#selectFrames = db.prepare('PRAGMA wal_checkpoint(NOOP)');
    this.#selectVersion = db.prepare('PRAGMA data_version');
    this.#selectPages = db.prepare('PRAGMA page_count');
  }

  /**
   * Throws a StorageError if a file is not the one that was opened, or was cut. `none`: before anything is read or written; a log that
   * nobody touched since the last look is whole. `unknown`: after a write, which only we made. Not inside a transaction.
   */
  check(outcome: Outcome): void {
    const { file, log } = this.#checkPlaces(outcome);
    if (!this.#isCounted) return;
    this.#checkFile(file, outcome);
    if (log === undefined) return;
    const isOwn = outcome === 'unknown' && log.size >= (this.#log?.size ?? 0);
    if (!isOwn && !isSame(log, this.#log)) this.#checkLog(outcome);
    this.#log = log;
  }

  /** Throws if the file or the log is shorter than SQLite counts on. Not inside a transaction. */
  checkLengths(outcome: Outcome = 'none'): void {
    if (!this.#isCounted) return;
    this.#checkIndex(lookAt(this.#path + INDEX), outcome);
    this.#checkFile(lookAt(this.#path), outcome);
    this.#checkLog(outcome);
  }

  /** Compares the length of the log with what SQLite counts on. */
  #checkLog(outcome: Outcome): void {
    if (this.#isLasting(() => this.#isLogShort())) throw changedFile(this.#path + LOG, 'cut', outcome);
  }

  /** Only a checkpoint touches the file, so this compares its length seldom. */
  #checkFile(now: Look | undefined, outcome: Outcome): void {
    if (now === undefined || isSame(now, this.#file)) return;
    let isShort: boolean;
    try {
      isShort = this.#isLasting(() => this.#isFileShort());
    } catch (error) {
      if (isBusy(error)) return; // others recover the file: the next look tells
      throw error;
    }
    if (isShort) throw changedFile(this.#path, 'cut', outcome);
    this.#file = now;
  }

  /** Other processes may empty the log at any time, even between two looks. That changes the version first. */
  #isLasting(isShort: () => boolean): boolean {
    while (isShort()) {
      const version = this.#version();
      if (isShort() && this.#version() === version) return true;
    }
    return false;
  }

  /**
   * What would have to be known before the database is closed. SQLite itself leaves a file alone that is not at its path any more, and
   * copies a log that nothing but its handle is left of; a log that was cut or replaced it would copy, too, and damage the file.
   */
  findMisplaced(): 'file' | 'log' | undefined {
    for (const { suffix, found } of this.#opened) {
      const now = lookAt(this.#path + suffix);
      if (suffix === '' && changeOf(found, now) !== undefined) return 'file';
      if (suffix !== '' && now !== undefined && changeOf(found, now) !== undefined) return 'log';
    }
    return undefined;
  }

  #checkPlaces(outcome: Outcome): Partial<Record<'file' | 'log', Look | undefined>> {
    let [file, log]: (Look | undefined)[] = [];
    for (const { suffix, found } of this.#opened) {
      const now = lookAt(this.#path + suffix);
      const change = changeOf(found, now);
      if (change !== undefined) throw changedFile(this.#path + suffix, change, outcome);
      if (suffix === '') file = now;
      if (suffix === LOG) log = now;
      if (suffix === INDEX) this.#checkIndex(now, outcome);
    }
    return { file, log };
  }

  /** The index is mapped into memory: to touch what was cut off ends the process. An empty one of the old length SQLite makes anew from the log. */
  #checkIndex(now: Look | undefined, outcome: Outcome): void {
    if (now === undefined) return;
    if (now.size < this.#indexBytes) {
      const path = this.#path + INDEX;
      for (const size of [0, this.#indexBytes]) truncateSync(path, size);
      throw changedFile(path, 'cut', outcome);
    }
    this.#indexBytes = now.size;
  }

  #isLogShort(): boolean {
    const frames = this.#countFrames();
    if (frames <= 0) return false;
    const found = lookAt(this.#path + LOG);
    return found !== undefined && found.size < LOG_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + this.#pageBytes);
  }

  /** Pages behind the end of the file must be in the log: a file grows, or shrinks after a VACUUM, when the log is copied into it. */
  #isFileShort(): boolean {
    const size = lookAt(this.#path)?.size ?? 0;
    if (size < this.#pageBytes) return true;
    const { page_count: pages } = this.#selectPages.get() as { page_count: number };
    const filePages = Math.floor(size / this.#pageBytes);
    if (filePages >= pages) return false;
    const logged = this.#readLoggedPages();
    logged.add(LOCK_BYTE / this.#pageBytes + 1);
    for (let page = filePages + 1; page <= pages; page++) if (!logged.has(page)) return true;
    return false;
  }

  /** The file itself is not opened: closing it would drop the locks that SQLite holds on it. It holds none on the log. */
  #readLoggedPages(): Set<number> {
    const pages = new Set<number>();
    const log = openSync(this.#path + LOG, 'r');
    try {
      const header = Buffer.alloc(FRAME_HEADER_BYTES);
      const frames = this.#countFrames();
      for (let frame = 0; frame < frames; frame++) {
        readSync(log, header, 0, FRAME_HEADER_BYTES, LOG_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + this.#pageBytes));
        pages.add(header.readUInt32BE(0));
      }
    } finally {
      closeSync(log);
    }
    return pages;
  }

  #countFrames(): number {
    return (this.#selectFrames.get() as { log: number }).log;
  }

  #version(): number {
    return (this.#selectVersion.get() as { data_version: number }).data_version;
  }
}

function changeOf(found: Look, now: Look | undefined): string | undefined {
  if (now === undefined) return 'deleted or moved';
  return now.ino === found.ino && now.dev === found.dev ? undefined : 'replaced by another file';
}

function isSame(now: Look, before: Look | undefined): boolean {
  return now.mtimeMs === before?.mtimeMs && now.size === before.size;
}

function changedFile(file: string, change: string, outcome: Outcome): StorageError {
  const effect =
    outcome === 'none' ? 'nothing is read from it or saved to it' : 'what was just saved may be stored or lost';
  return new StorageError(
    `The file ${file} was ${change} while it was open, so ${effect}. ${adviceFor(file, change)}`,
    {
      details: { path: file, ...(outcome === 'unknown' && { outcome }) },
    },
  );
}

function adviceFor(file: string, change: string): string {
  if (change !== 'cut') return 'Put the file back, or close the storage and open it again.';
  if (file.endsWith(INDEX)) return 'It is made anew from the log: call it again.';
  return file.endsWith(LOG)
    ? 'Close the storage and open it again: what was saved last may be missing.'
    : 'Close the storage, restore the file from a backup and open it again.';
}

/** Numbers of files that a double cannot hold, as Windows has them, are read once more: big integers cost half as much again. */
function lookAt(path: string): Look | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || Number.isSafeInteger(found.ino)) return found;
  const { dev, size, mtimeMs } = found;
  const exact = statSync(path, { bigint: true, throwIfNoEntry: false });
  return exact && { dev, size, mtimeMs, ino: exact.ino };
}
