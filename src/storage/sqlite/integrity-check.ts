import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import { sqliteModuleName } from '../database/sqlite-driver.ts';

/** SQLite checks a smaller file in a few milliseconds. */
const INLINE_BYTES = 1024 * 1024;

/** SQLite stops at 100 findings unless told otherwise; beyond this many a list helps nobody. */
const MAX_FINDINGS = 10_000;

const PRAGMA = `PRAGMA integrity_check(${MAX_FINDINGS})`;

/** Plain JavaScript, because a worker has no part in how this module was loaded. */
const WORKER = `
const { parentPort, workerData } = require('node:worker_threads');
process.removeAllListeners('warning');
const { DatabaseSync } = require(workerData.module);
const db = new DatabaseSync(workerData.path, { readOnly: true });
db.exec('PRAGMA busy_timeout=10000; PRAGMA cell_size_check=ON');
parentPort.postMessage(db.prepare(workerData.pragma).all().map((row) => row.integrity_check));
db.close();
`;

/** What SQLite itself finds damaged. Reads the whole file in one call, so a large one is checked in a thread of its own. */
export async function checkFile(connection: SqliteConnection): Promise<string[]> {
  const isSmall = statSync(connection.path).size <= INLINE_BYTES;
  const found = isSmall ? connection.db.prepare(PRAGMA).all().map(messageOf) : await checkInWorker(connection.path);
  return found.filter((message) => message !== 'ok').map((message) => `SQLite: ${message}`);
}

function messageOf(row: unknown): string {
  return (row as { integrity_check: string }).integrity_check;
}

function checkInWorker(path: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const workerData = { path, module: sqliteModuleName(), pragma: PRAGMA };
    const worker = new Worker(WORKER, { eval: true, workerData, stderr: true, execArgv: [] });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error(`the check of ${path} ended without a result`)));
  });
}
