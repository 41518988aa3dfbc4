import { createRequire } from 'node:module';
import { UnsupportedError } from '../../core/errors.ts';

/** What can be bound to a statement and read from a column. */
export type SqlValue = null | number | string | Uint8Array;

/** A prepared statement, as far as this package uses it. Rows are decoded, that is given a type, where they are read. */
export interface SqlStatement {
  run(...values: readonly SqlValue[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
  get(...values: readonly SqlValue[]): unknown;
  all(...values: readonly SqlValue[]): unknown[];
}

/** One connection to a database file. */
export interface SqlDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqlStatement;
  close(): void;
}

type SqliteModule = {
  readonly DatabaseSync: new (path: string, options: { readonly readOnly: boolean }) => SqlDatabase;
};

/** SQLite before this version can corrupt a database that two connections write to at once (the WAL-reset bug). */
const MIN_SQLITE_VERSION = [3, 51, 3] as const;

/** Has the API of `node:sqlite`, for versions of Node that lack it. */
const PACKAGE = '@photostructure/sqlite';

let loaded: SqliteModule | undefined;

/** Opens a connection with the SQLite that Node brings, or, before Node 22.13, with the package that has the same API. */
export function openDatabase(path: string): SqlDatabase {
  return open(path, { readOnly: false });
}

/** Opens a connection that cannot change the file. */
export function openReadOnlyDatabase(path: string): SqlDatabase {
  return open(path, { readOnly: true });
}

function open(path: string, options: { readonly readOnly: boolean }): SqlDatabase {
  loaded ??= loadBuiltIn() ?? loadPackage();
  const db = new loaded.DatabaseSync(path, options);
  return hasBuiltInSqlite() ? db : new LooseDatabase(db);
}

/** Whether this Node.js brings a SQLite, which ends a connection with all its statements when it is closed. */
export function hasBuiltInSqlite(): boolean {
  return process.getBuiltinModule('node:sqlite') !== undefined;
}

/** Lets go of its statements when it is closed: the package ends a connection only when the last of them is collected as garbage. */
class LooseDatabase implements SqlDatabase {
  readonly #db: SqlDatabase;
  #statements = new WeakMap<SqlStatement, SqlStatement>();

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  exec(sql: string): void {
    this.#db.exec(sql);
  }

  prepare(sql: string): SqlStatement {
    const find = (): SqlStatement => {
      const found = this.#statements.get(statement);
      if (found === undefined) throw new Error('database is not open');
      return found;
    };
    const statement: SqlStatement = {
      run: (...values) => find().run(...values),
      get: (...values) => find().get(...values),
      all: (...values) => find().all(...values),
    };
    this.#statements.set(statement, this.#db.prepare(sql));
    return statement;
  }

  close(): void {
    this.#statements = new WeakMap();
    this.#db.close();
  }
}

/** What a worker thread loads to have the same SQLite: an absolute path, or the name of a built-in module. */
export function sqliteModuleName(): string {
  return hasBuiltInSqlite() ? 'node:sqlite' : createRequire(import.meta.url).resolve(PACKAGE);
}

/** The version of this SQLite; throws an UnsupportedError if it is too old to be trusted with several connections. */
export function checkSqliteVersion(db: SqlDatabase): string {
  const { version } = db.prepare('SELECT sqlite_version() AS version').get() as { version: string };
  if (isAtLeast(version.split('.').map(Number), MIN_SQLITE_VERSION)) return version;
  throw new UnsupportedError(
    `SQLite ${version} can corrupt a database that two processes use at once; version ${MIN_SQLITE_VERSION.join('.')} or newer is needed. Update Node.js.`,
    { details: { found: version, needed: MIN_SQLITE_VERSION.join('.') } },
  );
}

/** Ends a transaction that failed. The first error is the one to report, so this throws none. */
export function rollBack(db: SqlDatabase): void {
  try {
    db.exec('ROLLBACK');
  } catch {
    // After some errors (a full disk, for one) SQLite has ended the transaction itself.
    return;
  }
}

function isAtLeast(found: readonly number[], needed: readonly number[]): boolean {
  const at = needed.findIndex((part, i) => (found[i] ?? 0) !== part);
  return at < 0 || (found[at] ?? 0) > (needed[at] ?? 0);
}

function loadBuiltIn(): SqliteModule | undefined {
  return withoutSqliteWarning(() => process.getBuiltinModule('node:sqlite') as SqliteModule | undefined);
}

function loadPackage(): SqliteModule {
  try {
    return createRequire(import.meta.url)(PACKAGE) as SqliteModule;
  } catch (cause) {
    throw new UnsupportedError(
      `Node.js ${process.version} has no node:sqlite, and the package ${PACKAGE} cannot be loaded. Use Node.js 22.13 or newer, or install that package.`,
      { cause },
    );
  }
}

/** Node 22 warns that its SQLite is experimental. Whoever uses this package cannot act on that; every other warning passes. */
function withoutSqliteWarning<T>(load: () => T): T {
  const original = process.emitWarning;
  const filtered = (...args: Parameters<typeof original>): void => {
    if (!/SQLite is an experimental feature/.test(String(args[0]))) Reflect.apply(original, process, args);
  };
  process.emitWarning = filtered as typeof original;
  try {
    return load();
  } finally {
    process.emitWarning = original;
  }
}
