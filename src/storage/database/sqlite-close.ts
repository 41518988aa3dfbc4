import { setImmediate as nextTurn } from 'node:timers/promises';
import { hasBuiltInSqlite, openReadOnlyDatabase, type SqlDatabase } from './sqlite-driver.ts';

/**
 * Closes a database whose log must not be copied into its file. SQLite copies it when the last connection goes and can lock the file
 * for itself: so another one holds its lock until this one is gone, and cannot lock the file for itself, because it may only read.
 */
export async function closeWithoutCopying(db: SqlDatabase, path: string): Promise<void> {
  const guard = openReadOnlyDatabase(path);
  try {
    holdLock(guard);
    db.close();
    if (!hasBuiltInSqlite()) await collectStatements();
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
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([import('node:v8'), import('node:vm')]);
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  await nextTurn(); // finalizers have a turn of their own
}
