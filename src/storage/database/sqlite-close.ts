import { setImmediate as nextTurn } from 'node:timers/promises';
import { StorageError } from '../../core/errors.ts';
import { hasBuiltInSqlite, openReadOnlyDatabase, type SqlDatabase } from './sqlite-driver.ts';
import { isBusy, isFull, toSavestateError } from './sqlite-error.ts';

/** Whose database is closed: who wrote to it is told that the log could not be copied; who only read has no part in that. */
type Closing = { readonly path: string; readonly hasWritten: boolean };

/**
 * Copies the log into the file and closes the database. If others read, or the disk is full, the log stays: everything is safe in it, and
 * the next one to open the file goes on with it. Then nothing of this connection may be left, which would copy the log later.
 */
export async function closeEmptied(db: SqlDatabase, { path, hasWritten }: Closing): Promise<void> {
  let isEmpty = false;
  try {
    const { busy } = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    isEmpty = busy === 0;
  } catch (error) {
    if (hasWritten && !isBusy(error)) throw isFull(error) ? fullAtClose(error, path) : toSavestateError(error, path);
  } finally {
    db.close();
    if (!isEmpty) await collectStatements();
  }
}

function fullAtClose(cause: unknown, path: string): StorageError {
  return new StorageError(
    `The disk is full, so the log of ${path} could not be copied into it. Everything saved is safe: keep ${path}-wal beside it, free some space, and open it again.`,
    { cause, details: { path, isSaved: true } },
  );
}

/**
 * Closes a database whose log must not be copied into its file. SQLite copies it when the last connection goes and can lock the file
 * for itself: so another one holds its lock until this one is gone, and cannot lock the file for itself, because it may only read.
 */
export async function closeWithoutCopying(db: SqlDatabase, path: string): Promise<void> {
  const guard = openReadOnlyDatabase(path);
  try {
    holdLock(guard);
    db.close();
    await collectStatements();
  } finally {
    guard.close();
  }
}

function holdLock(guard: SqlDatabase): void {
  guard.exec('BEGIN');
  try {
    guard.exec('SELECT count(*) FROM sqlite_schema');
  } catch {
    // What it would have read is gone with the log; it has the lock all the same.
    return;
  }
}

/** The package for Node 20 ends a connection when the last of its statements is collected as garbage. They are unreachable by now. */
async function collectStatements(): Promise<void> {
  if (hasBuiltInSqlite()) return;
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([import('node:v8'), import('node:vm')]);
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  await nextTurn(); // finalizers have a turn of their own
}
