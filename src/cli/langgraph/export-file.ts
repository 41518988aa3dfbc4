import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { InvalidInputError, StorageError } from '../../core/errors.ts';
import { APPLICATION_ID } from '../../storage/sqlite/sqlite-schema.ts';

/** What every SQLite file begins with, and where it says whose it is. */
const SQLITE_MAGIC = Buffer.from('SQLite format 3\0');
const HEADER_BYTES = 100;
const APPLICATION_ID_AT = 68;

/** Refuses what LangGraph's SqliteSaver cannot take. By itself it would make its tables in any database, also in one of ours. */
export function checkExportFile(path: string): void {
  const found = findObstacle(path);
  if (found === undefined) return;
  throw new InvalidInputError(
    `Threads cannot be exported to ${path}: ${found}. Nothing was written; name a file of SqliteSaver, or a new one.`,
    { details: { path } },
  );
}

function findObstacle(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return existsSync(dirname(path)) ? undefined : `there is no folder ${dirname(path)}`;
  if (found.isDirectory()) return 'it is a folder';
  if (found.size === 0) return undefined;
  const header = readHeader(path);
  if (!header.subarray(0, SQLITE_MAGIC.length).equals(SQLITE_MAGIC)) return 'it is not a SQLite database';
  return header.length === HEADER_BYTES && header.readUInt32BE(APPLICATION_ID_AT) === APPLICATION_ID
    ? 'it is a database of Savestate itself'
    : undefined;
}

function readHeader(path: string): Buffer {
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    const header = Buffer.alloc(HEADER_BYTES);
    return header.subarray(0, readSync(file, header));
  } catch (cause) {
    throw new StorageError(`The file ${path} cannot be read (${(cause as Error).message}). Check its permissions.`, {
      cause,
    });
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
