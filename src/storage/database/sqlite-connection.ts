import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { ClosedError, InvalidInputError, StorageError } from '../../core/errors.ts';
import { filledString, oneOf, wholeFrom } from '../../core/options.ts';
import { isFolder, makeFolder } from '../make-folder.ts';
import { closeEmptied, closeWithoutCopying } from './sqlite-close.ts';
import { checkSqliteVersion, openDatabase, rollBack, type SqlDatabase, type SqlStatement } from './sqlite-driver.ts';
import { isBusy, isDiskFailure, isWriteRefused, toSavestateError } from './sqlite-error.ts';
import { checkNotEmptied, checkOneByte, type Outcome, SqliteFiles } from './sqlite-files.ts';
import { ReadOnlyFile } from './sqlite-read-only.ts';

/** How a database is opened. */
export type SqliteOptions = {
  /** `power`: a commit survives power loss; `process`: it survives the end of the process. */
  readonly durability?: 'power' | 'process' | undefined;
  /** How long to wait for another process that writes (10 s by default). */
  readonly busyTimeoutMs?: number | undefined;
};

/** The checks of `SqliteOptions` and of the path of the file. */
export const SQLITE_CHECKS = {
  path: filledString,
  durability: oneOf('power', 'process'),
  busyTimeoutMs: wholeFrom(0),
};

/** What a file holds. Every step may be repeated, also by several processes at once. */
export type SqliteTables = {
  /** Whether the file is new; throws for a file of another program and for a format that is not known. */
  readonly isEmpty: (db: SqlDatabase, path: string) => boolean;
  /** What a new file is given before its first page is written. */
  readonly pragmas?: string;
  /** Makes the tables, inside a transaction. */
  readonly create: (db: SqlDatabase) => void;
  /** Brings tables of an older version up to date, in a transaction of its own. */
  readonly migrate?: (db: SqlDatabase) => void;
  /** Throws for tables that are damaged. */
  readonly check?: (db: SqlDatabase, path: string) => void;
};

const DEFAULT_BUSY_TIMEOUT_MS = 10_000;
/** While open, SQLite itself waits only this long for a lock, because it blocks the event loop; we go on waiting without. */
const INNER_BUSY_TIMEOUT_MS = 5;
const MAX_BACKOFF_MS = 50;
const OPEN_RETRY_MS = 10;
/** Small enough that copying the log into the file, which happens in a commit, stays in the range of milliseconds. */
const WAL_AUTOCHECKPOINT_PAGES = 2000;
/** Holds the inner pages of the indexes of some million chunks, and the pages that every commit touches. */
const CACHE_KIB = 16_384;
const MAX_STATEMENTS = 100;
/** After this many others wrote while it was read in pages, something is read in one go. */
const MAX_PAGED_READS = 3;
/** Nobody replaces a file, opens the new one and saves to it sooner than this after a look. */
const LOOK_AGAIN_MS = 10;
const ALWAYS = -1;
/** One open database file: prepared statements, transactions that wait for locks without blocking, errors of our own kind. */
export class SqliteConnection {
  readonly path: string;
  readonly #db: SqlDatabase;
  readonly #durability: 'power' | 'process';
  readonly #busyTimeoutMs: number;
  readonly #files: SqliteFiles;
  /** Set if the file may not be written. */
  #readOnly: ReadOnlyFile | undefined;
  readonly #statements = new Map<string, SqlStatement>();
  #synchronous: string;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #writes = 0;
  #hasWritten = false;
  #hasDiskFailed = false;
  /** Whether what runs now, or ran last, may be stored: its commit was begun. */
  #outcome: Outcome = 'none';
  #isClosed = false;

  /** Opens the file, or creates it. Its folder must be there, unless it is to be made. */
  constructor(path: string, tables: SqliteTables, options: SqliteOptions & { readonly makesFolder?: boolean } = {}) {
    const { durability = 'power', busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, makesFolder = false } = options;
    this.#durability = durability;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#synchronous = durability === 'power' ? 'FULL' : 'NORMAL';
    this.path = checkPath(path);
    try {
      prepareFolder(this.path, makesFolder);
      checkOneByte(this.path);
      checkNotEmptied(this.path);
      this.#db = this.#openAny(tables);
      this.#files = new SqliteFiles(this.#db, this.path, { isCounted: this.#readOnly === undefined });
    } catch (error) {
      throw toSavestateError(error, this.path);
    }
  }

  /** What may not be written is opened for looking at it. */
  #openAny(tables: SqliteTables): SqlDatabase {
    try {
      return this.#open(openDatabase(this.path), tables);
    } catch (error) {
      if (!isWriteRefused(error) || !isFilled(this.path)) throw error;
      return this.#openReadOnly(tables);
    }
  }

  #openReadOnly(tables: SqliteTables): SqlDatabase {
    const file = new ReadOnlyFile(this.path);
    this.#readOnly = file;
    try {
      return this.#open(file.open(), tables);
    } catch (error) {
      throw file.explain(error);
    }
  }

  #open(db: SqlDatabase, tables: SqliteTables): SqlDatabase {
    try {
      // First of all: even asking for the version reads the schema, which another process may be creating just now.
      db.exec(`PRAGMA busy_timeout=${this.#busyTimeoutMs}`);
      checkSqliteVersion(db);
      retryWhileBusy(() => this.#setUp(db, tables), this.#busyTimeoutMs);
      db.exec(`PRAGMA busy_timeout=${INNER_BUSY_TIMEOUT_MS}`);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Every step may be repeated, also by several processes at once: the first one to get the lock creates, the others find. */
  #setUp(db: SqlDatabase, { isEmpty, pragmas = '', create, migrate, check }: SqliteTables): void {
    if (this.#readOnly !== undefined) {
      db.exec('PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF');
      if (!isEmpty(db, this.path)) check?.(db, this.path);
      return;
    }
    if (isEmpty(db, this.path)) {
      db.exec(`${pragmas}; PRAGMA journal_mode=WAL`);
      transact(db, () => {
        if (isEmpty(db, this.path)) create(db);
      });
    }
    db.exec('PRAGMA journal_mode=WAL');
    db.exec(`PRAGMA wal_autocheckpoint=${WAL_AUTOCHECKPOINT_PAGES}; PRAGMA cache_size=-${CACHE_KIB}`);
    // What is deleted is overwritten, so that nothing of a deleted session stays in the free part of a page.
    db.exec('PRAGMA secure_delete=ON; PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF');
    // A reopened file has the build's default, which may be weaker than what a new file has.
    db.exec(`PRAGMA synchronous=${this.#synchronous}`);
    // On macOS a plain fsync does not reach the platter; elsewhere these two change nothing.
    if (this.#durability === 'power') db.exec('PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1');
    db.prepare('PRAGMA wal_checkpoint(NOOP)').get(); // changes nothing, and fails if nothing may be written
    migrate?.(db);
    check?.(db, this.path);
  }

  get place(): string {
    return this.path;
  }

  /** For reads of pragmas and of the schema; statements of the steady state come from `prepare`. */
  get db(): SqlDatabase {
    this.#checkOpen();
    return this.#db;
  }

  prepare(sql: string): SqlStatement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      // Queries are built from filters, so their number is bounded but large.
      if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear();
      statement = this.db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  /**
   * Runs a synchronous read, and again while another process has the file locked (at recovery, for instance). It waits for no turn of the
   * event loop: a graph that never lets it turn is saved, too.
   */
  read<T>(work: () => T): Promise<T> {
    return this.#run(work, LOOK_AGAIN_MS);
  }

  /** Looks first whether the file is still the one that was opened: what is not must neither be read nor written. */
  async #run<T>(work: () => T, lookAgainMs: number): Promise<T> {
    const deadline = Date.now() + this.#busyTimeoutMs;
    for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, MAX_BACKOFF_MS)) {
      this.#checkOpen();
      this.#outcome = 'none';
      try {
        if (performance.now() - this.#lookedAtMs > lookAgainMs) this.#checkFiles('none');
        const result = work();
        this.#readOnly?.check();
        return result;
      } catch (error) {
        this.#lookedAtMs = Number.NEGATIVE_INFINITY;
        if (isDiskFailure(error)) this.#files.checkLengths(this.#outcome);
        if (!isBusy(error) || Date.now() >= deadline) throw toSavestateError(error, this.path, this.#outcome);
      }
      await sleep(waitMs);
    }
  }

  /**
   * Reads pages, each after the last row of the one before, with turns of the event loop in between. All of them show the same moment:
   * if somebody writes meanwhile, it begins again.
   */
  async readPages<Row>(size: number, readPage: (last: Row | undefined, limit: number) => Row[]): Promise<Row[]> {
    for (let attempt = 1; ; attempt++) {
      const limit = attempt > MAX_PAGED_READS ? Number.POSITIVE_INFINITY : size;
      const rows: Row[] = [];
      for (let version: string | undefined; ; await nextTurn()) {
        const page = await this.read(() => {
          version ??= this.#version();
          const found = readPage(rows.at(-1), limit);
          return limit > size || version === this.#version() ? found : undefined;
        });
        if (page === undefined) break;
        for (const row of page) rows.push(row);
        if (page.length < limit) return rows;
      }
    }
  }

  /** Changes with every commit, of any process. */
  #version(): string {
    const { data_version: others } = this.prepare('PRAGMA data_version').get() as { data_version: number };
    return `${others} ${this.#writes}`;
  }

  #checkFiles(outcome: Outcome): void {
    this.#lookedAtMs = Number.NEGATIVE_INFINITY;
    this.#files.check(outcome);
    this.#lookedAtMs = performance.now();
  }

  /**
   * Runs synchronous work in one write transaction; if it or the commit fails, nothing of it is stored. The work runs again
   * if the lock was lost, so it must do nothing that a rollback does not undo.
   */
  write<T>(work: () => T, options: { readonly isRelaxed?: boolean } = {}): Promise<T> {
    const isRelaxed = options.isRelaxed === true || this.#durability === 'process';
    return this.#commit(() => this.#inTransaction(work), isRelaxed ? 'NORMAL' : 'FULL');
  }

  /** Runs one statement, which is a transaction by itself. */
  writeOne<T>(work: () => T): Promise<T> {
    const commit = (): T => this.#end(work);
    return this.#commit(commit, this.#durability === 'process' ? 'NORMAL' : 'FULL');
  }

  #commit<T>(work: () => T, synchronous: string): Promise<T> {
    const commit = (): T => {
      const result = this.#transact(work, synchronous);
      this.#hasWritten = true;
      this.#checkStored();
      return result;
    };
    return this.#run(commit, ALWAYS); // because SQLite would write on after a hole, and the log would have its length again
  }

  /** Nothing is acknowledged that is gone with a file. What is stored is not stored again because others recover the file: the next look tells. */
  #checkStored(): void {
    try {
      this.#checkFiles('unknown');
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
  }

  /** Synchronous from begin to commit, so that no other call of this process can come in between. */
  #transact<T>(work: () => T, synchronous: string): T {
    if (this.#hasDiskFailed) throw new StorageError(describeDiskFailure(this.path), { details: { path: this.path } });
    this.#writes++;
    try {
      this.#setSynchronous(synchronous);
      return work();
    } catch (error) {
      this.#hasDiskFailed ||= isDiskFailure(error);
      rollBack(this.#db);
      throw error;
    }
  }

  #inTransaction<T>(work: () => T): T {
    this.prepare('BEGIN IMMEDIATE').run();
    const result = work();
    this.#end(() => this.prepare('COMMIT').run());
    return result;
  }

  #end<T>(commit: () => T): T {
    this.#outcome = 'unknown';
    return commit();
  }

  #setSynchronous(synchronous: string): void {
    if (this.#synchronous === synchronous) return;
    this.db.exec(`PRAGMA synchronous=${synchronous}`);
    this.#synchronous = synchronous;
  }

  /** Copies the log into the file and empties it, as far as other processes let it. */
  async truncateLog(): Promise<void> {
    await this.read(() => this.db.exec('PRAGMA wal_checkpoint(TRUNCATE)'));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#statements.clear();
    const misplaced = this.#files.findMisplaced();
    if (misplaced === 'file' || this.#readOnly !== undefined) return this.#db.close();
    if (misplaced === 'log') return closeWithoutCopying(this.#db, this.path);
    try {
      this.#files.checkLengths();
    } catch (error) {
      await closeWithoutCopying(this.#db, this.path);
      throw error;
    }
    await closeEmptied(this.#db, { path: this.path, hasWritten: this.#hasWritten });
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError(`The storage ${this.path} was closed.`);
  }
}

/** What a failed sync left behind is known to nobody, so nothing more may be promised on top of it. */
function describeDiskFailure(path: string): string {
  return `The disk failed while ${path} was written, so nothing more is saved. Check the disk, then close the storage and open it again.`;
}

function checkPath(path: string): string {
  if (!path.includes('\0')) return resolve(path);
  throw new InvalidInputError(`A path must not contain NUL characters; found ${JSON.stringify(path)}.`);
}

function isFilled(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size > 0;
}

function prepareFolder(path: string, isMade: boolean): void {
  const folder = dirname(path);
  if (isMade) makeFolder(folder);
  if (isFolder(folder)) return;
  throw new InvalidInputError(
    `The database ${path} cannot be opened: ${folder} is not a folder. Create it or choose another path.`,
    { details: { path } },
  );
}

function transact(db: SqlDatabase, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    work();
    db.exec('COMMIT');
  } catch (error) {
    rollBack(db);
    throw error;
  }
}

/** Opening is synchronous. SQLite does not wait for every lock itself: a change of the journal mode fails at once. */
function retryWhileBusy(work: () => void, busyTimeoutMs: number): void {
  const deadline = Date.now() + busyTimeoutMs;
  for (;;) {
    try {
      work();
      return;
    } catch (error) {
      if (!isBusy(error) || Date.now() >= deadline) throw error;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, OPEN_RETRY_MS);
  }
}
