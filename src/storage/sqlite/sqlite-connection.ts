import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClosedError, InvalidInputError, StorageError } from '../../core/errors.ts';
import { FileIdentity } from './file-identity.ts';
import { checkSqliteVersion, openDatabase, rollBack, type SqlDatabase, type SqlStatement } from './sqlite-driver.ts';
import { isBusy, isDiskFailure, toSavestateError } from './sqlite-error.ts';
import { checkSchema, createSchema, inspectFile } from './sqlite-schema.ts';

/** How a database is opened. `power`: a commit survives power loss; `process`: it survives the end of the process. */
export type ConnectionOptions = {
  readonly path: string;
  readonly durability: 'power' | 'process';
  readonly busyTimeoutMs: number;
  /** The page size of a file that is created now. */
  readonly pageBytes?: number;
};

/** While open, SQLite itself waits only this long for a lock, because it blocks the event loop; we go on waiting without. */
const INNER_BUSY_TIMEOUT_MS = 5;
const MAX_BACKOFF_MS = 50;
const OPEN_RETRY_MS = 10;
/** Small enough that copying the log into the file, which happens in a commit, stays in the range of milliseconds. */
const WAL_AUTOCHECKPOINT_PAGES = 2000;
/** Holds the inner pages of the indexes of some million chunks, and the pages that every commit touches. */
const CACHE_KIB = 16_384;
const MAX_STATEMENTS = 100;
const DEFAULT_PAGE_BYTES = 4096;

/** One open database file: prepared statements, transactions that wait for locks without blocking, errors of our own kind. */
export class SqliteConnection {
  readonly path: string;
  readonly #db: SqlDatabase;
  readonly #options: ConnectionOptions;
  readonly #file: FileIdentity;
  readonly #statements = new Map<string, SqlStatement>();
  #synchronous: string;
  #hasDiskFailed = false;
  #isClosed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.path = checkPath(options.path);
    this.#synchronous = options.durability === 'power' ? 'FULL' : 'NORMAL';
    try {
      this.#db = openFile(this.path, options);
      this.#file = new FileIdentity(this.path);
    } catch (error) {
      throw toSavestateError(error, this.path);
    }
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
   * Runs a synchronous read, and again while another process has the file locked (at recovery, for instance). Looks afterwards whether the
   * file is still the one that was opened: nothing that is gone with it is acknowledged.
   */
  async read<T>(work: () => T): Promise<T> {
    const deadline = Date.now() + this.#options.busyTimeoutMs;
    for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, MAX_BACKOFF_MS)) {
      this.#checkOpen();
      try {
        const result = work();
        this.#file.check();
        return result;
      } catch (error) {
        if (!isBusy(error) || Date.now() >= deadline) throw toSavestateError(error, this.path);
      }
      await sleep(waitMs);
    }
  }

  /**
   * Runs synchronous work in one write transaction; if it or the commit fails, nothing of it is stored. The work runs again
   * if the lock was lost, so it must do nothing that a rollback does not undo.
   */
  write<T>(work: () => T, options: { readonly isRelaxed?: boolean } = {}): Promise<T> {
    const isRelaxed = options.isRelaxed === true || this.#options.durability === 'process';
    return this.read(() => this.#transact(work, isRelaxed ? 'NORMAL' : 'FULL'));
  }

  /** Synchronous from begin to commit, so that no other call of this process can come in between. */
  #transact<T>(work: () => T, synchronous: string): T {
    if (this.#hasDiskFailed) throw new StorageError(describeDiskFailure(this.path), { details: { path: this.path } });
    try {
      this.#begin(synchronous);
      const result = work();
      this.prepare('COMMIT').run();
      return result;
    } catch (error) {
      this.#hasDiskFailed ||= isDiskFailure(error);
      rollBack(this.#db);
      throw error;
    }
  }

  #begin(synchronous: string): void {
    if (this.#synchronous !== synchronous) {
      this.db.exec(`PRAGMA synchronous=${synchronous}`);
      this.#synchronous = synchronous;
    }
    this.prepare('BEGIN IMMEDIATE').run();
  }

  /** Copies the log into the file and empties it, as far as other processes let it. */
  async truncateLog(): Promise<void> {
    await this.read(() => this.db.exec('PRAGMA wal_checkpoint(TRUNCATE)'));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    try {
      this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch (error) {
      // Everything is safe in the log; the next one to open the file goes on with it.
      if (!isBusy(error)) throw toSavestateError(error, this.path);
    } finally {
      this.#isClosed = true;
      this.#statements.clear();
      this.#db.close();
    }
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
  if (path === ':memory:') {
    throw new InvalidInputError(
      'SqliteCheckpointStorage keeps checkpoints in a file; for a storage in memory use InMemoryCheckpointStorage.',
    );
  }
  if (typeof path !== 'string' || path.length === 0 || path.includes('\0')) {
    throw new InvalidInputError('SqliteCheckpointStorage needs the path of a database file; found none.');
  }
  const whole = resolve(path);
  const folder = dirname(whole);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new InvalidInputError(
      `The database ${whole} cannot be opened: ${folder} is not a folder. Create it or choose another path.`,
      {
        details: { path: whole },
      },
    );
  }
  return whole;
}

function openFile(path: string, options: ConnectionOptions): SqlDatabase {
  const db = openDatabase(path);
  try {
    // First of all: even asking for the version reads the schema, which another process may be creating just now.
    db.exec(`PRAGMA busy_timeout=${options.busyTimeoutMs}`);
    checkSqliteVersion(db);
    retryWhileBusy(() => setUp(db, path, options), options.busyTimeoutMs);
    db.exec(`PRAGMA busy_timeout=${INNER_BUSY_TIMEOUT_MS}`);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Every step may be repeated, also by several processes at once: the first one to get the lock creates, the others find. */
function setUp(db: SqlDatabase, path: string, { durability, pageBytes = DEFAULT_PAGE_BYTES }: ConnectionOptions): void {
  if (inspectFile(db, path) === 'empty') {
    db.exec(`PRAGMA page_size=${pageBytes}; PRAGMA auto_vacuum=INCREMENTAL`);
    db.exec('PRAGMA journal_mode=WAL');
    createSchema(db, path);
  }
  db.exec('PRAGMA journal_mode=WAL');
  db.exec(`PRAGMA wal_autocheckpoint=${WAL_AUTOCHECKPOINT_PAGES}; PRAGMA cache_size=-${CACHE_KIB}`);
  // What is deleted is overwritten, so that nothing of a deleted session stays in the free part of a page.
  db.exec('PRAGMA secure_delete=ON; PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF');
  // A reopened file has the build's default, which may be weaker than what a new file has.
  db.exec(`PRAGMA synchronous=${durability === 'power' ? 'FULL' : 'NORMAL'}`);
  // On macOS a plain fsync does not reach the platter; elsewhere these two change nothing.
  if (durability === 'power') db.exec('PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1');
  checkSchema(db, path);
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
