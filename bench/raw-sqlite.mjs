import { importSource } from '../scripts/import-source.mjs';

export const { openDatabase } = await importSource('storage/database/sqlite-driver.ts');

/** The floor: the same driver, a plain rowid table of texts, WAL, and the log copied into the file as rarely as in our storage. */
export function openRaw(path, synchronous) {
  const db = openDatabase(path);
  db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=${synchronous}; PRAGMA wal_autocheckpoint=2000`);
  db.exec('CREATE TABLE IF NOT EXISTS row(n INTEGER PRIMARY KEY, text TEXT NOT NULL)');
  const insert = db.prepare('INSERT INTO row(text) VALUES(?)');
  return { db, insert: (text) => insert.run(text), close: () => db.close() };
}
