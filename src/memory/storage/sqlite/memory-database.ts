import { mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClosedError, UnsupportedError } from '../../../core/errors.ts';
import { FileIdentity } from '../../../storage/sqlite/file-identity.ts';
import {
  checkSqliteVersion,
  openDatabase,
  rollBack,
  type SqlDatabase,
  type SqlStatement,
} from '../../../storage/sqlite/sqlite-driver.ts';
import { isBusy, toSavestateError } from '../../../storage/sqlite/sqlite-error.ts';
import { SCHEMA, SCHEMA_VERSION } from './memory-schema.ts';

/** How a memory file is opened. `power`: what was added survives power loss; `process`: it survives the end of the process. */
export type MemoryDatabaseOptions = {
  readonly path: string;
  readonly durability: 'power' | 'process';
  readonly busyTimeoutMs: number;
};

/** SQLite itself waits only this long for a lock, because it blocks the event loop; we go on waiting without. */
const INNER_BUSY_TIMEOUT_MS = 5;
const MAX_BACKOFF_MS = 50;
const OPEN_RETRY_MS = 10;

/** One open memory file: prepared statements, and transactions that wait for other processes without blocking. */
export class MemoryDatabase {
  readonly path: string;
  readonly #db: SqlDatabase;
  readonly #busyTimeoutMs: number;
  readonly #file: FileIdentity;
  readonly #statements = new Map<string, SqlStatement>();
  #isClosed = false;

  constructor(options: MemoryDatabaseOptions) {
    this.path = resolve(options.path);
    this.#busyTimeoutMs = options.busyTimeoutMs;
    try {
      mkdirSync(dirname(this.path), { recursive: true });
      this.#db = openFile(this.path, options);
      this.#file = new FileIdentity(this.path);
    } catch (error) {
      throw toSavestateError(error, this.path);
    }
  }

  /** Statements are few and fixed; each is prepared once. */
  prepare(sql: string): SqlStatement {
    const statement = this.#statements.get(sql) ?? this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  /** Runs a synchronous read, and again while another process has the file locked. */
  async read<Result>(work: () => Result): Promise<Result> {
    const deadline = Date.now() + this.#busyTimeoutMs;
    for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, MAX_BACKOFF_MS)) {
      if (this.#isClosed) throw new ClosedError(`The memory ${this.path} was closed.`);
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

  /** Runs synchronous work in one write transaction; if it fails, nothing of it is stored. */
  async write<Result>(work: () => Result): Promise<Result> {
    return this.read(() => {
      try {
        this.prepare('BEGIN IMMEDIATE').run();
        const result = work();
        this.prepare('COMMIT').run();
        return result;
      } catch (error) {
        rollBack(this.#db);
        throw error;
      }
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#statements.clear();
    this.#db.close();
  }
}

function openFile(path: string, options: MemoryDatabaseOptions): SqlDatabase {
  const db = openDatabase(path);
  try {
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

/** Every step may be repeated, also by several processes at once. A file that is something else is not touched. */
function setUp(db: SqlDatabase, path: string, { durability }: MemoryDatabaseOptions): void {
  const isNew = isEmptyFile(db, path);
  db.exec('PRAGMA journal_mode=WAL; PRAGMA secure_delete=ON; PRAGMA trusted_schema=OFF');
  db.exec(`PRAGMA synchronous=${durability === 'power' ? 'FULL' : 'NORMAL'}`);
  if (durability === 'power') db.exec('PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1');
  if (isNew) createSchema(db, path);
}

function createSchema(db: SqlDatabase, path: string): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have been faster.
    if (isEmptyFile(db, path)) for (const statement of SCHEMA) db.exec(statement);
    db.exec(`PRAGMA user_version=${SCHEMA_VERSION}`);
    db.exec('COMMIT');
  } catch (error) {
    rollBack(db);
    throw error;
  }
}

/** Whether the file has no tables yet; throws for one that is not a memory of this version. */
function isEmptyFile(db: SqlDatabase, path: string): boolean {
  const version = versionOf(db);
  if (version === SCHEMA_VERSION) return false;
  const { count } = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as { count: number };
  if (version === 0 && count === 0) return true;
  throw new UnsupportedError(
    `The file ${path} is not a memory of version ${SCHEMA_VERSION}; found version ${version} with ${count} tables and indexes. Choose another path, or update savestate.`,
    { details: { path, found: version, supported: SCHEMA_VERSION } },
  );
}

function versionOf(db: SqlDatabase): number {
  return (db.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
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
