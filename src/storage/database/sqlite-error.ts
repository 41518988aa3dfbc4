import { CorruptError, SavestateError, StorageError, UNSYNCED } from '../../core/errors.ts';
import type { Outcome } from './sqlite-files.ts';

const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const CONSTRAINT = 19;
const NOTADB = 26;

/** What SQLite says with a code, for a driver that passes on the words alone (the package for Node 20 does, where rows are read). */
const CODES: ReadonlyMap<string, number> = new Map([
  ['database is locked', BUSY],
  ['database table is locked', LOCKED],
  ['attempt to write a readonly database', READONLY],
  ['disk I/O error', IOERR],
  ['database disk image is malformed', CORRUPT],
  ['database or disk is full', FULL],
  ['unable to open database file', CANTOPEN],
  ['file is not a database', NOTADB],
]);

/** SQLite's primary result code of a driver's error, or undefined if it is another kind of error. */
function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  return 'errcode' in error && typeof error.errcode === 'number' ? error.errcode & 0xff : CODES.get(error.message);
}

/** Whether another connection holds a lock, so that trying again later helps. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code === BUSY || code === LOCKED;
}

/** Whether a row broke a uniqueness rule of the schema. */
export function isConstraint(error: unknown): boolean {
  return resultCode(error) === CONSTRAINT;
}

/** Whether the disk failed. After a failed sync what was written before may be lost although a later sync succeeds. */
export function isDiskFailure(error: unknown): boolean {
  return resultCode(error) === IOERR;
}

/** Whether there is no space left. */
export function isFull(error: unknown): boolean {
  return resultCode(error) === FULL;
}

/** Whether the file, or those that SQLite needs beside it, may not be written. */
export function isWriteRefused(error: unknown): boolean {
  const code = resultCode(error);
  return code === READONLY || code === CANTOPEN;
}

/** Turns whatever a driver threw into an error of this package; those of this package stay as they are. */
export function toSavestateError(error: unknown, path: string, outcome: Outcome = 'none'): SavestateError {
  if (error instanceof SavestateError) return error;
  const code = resultCode(error);
  if (code === IOERR && outcome === 'unknown') return failedSync(error, path);
  const options = { cause: error, details: { path, ...(code === undefined ? {} : { sqliteCode: code }) } };
  const isDamage = code === CORRUPT || code === NOTADB;
  return isDamage
    ? new CorruptError(describe(code, path), options)
    : new StorageError(`${describe(code, path)}${code === undefined ? ` (${String(error)})` : ''}`, options);
}

/** The log may have the whole commit, and the next process to read it takes it for stored. */
function failedSync(cause: unknown, path: string): StorageError {
  return new StorageError(
    `The disk failed while ${path} was written: what was just saved may be stored or lost, and nothing more is saved. Check the disk, then close the storage and open it again.`,
    { cause, details: { path, sqliteCode: IOERR, ...UNSYNCED } },
  );
}

function describe(code: number | undefined, path: string): string {
  switch (code) {
    case BUSY:
    case LOCKED:
      return `The database ${path} is locked by another process. Nothing was written; try again, or find the process that holds it.`;
    case READONLY:
      return `The database ${path} cannot be written: the file or its folder is read-only. It can be looked at; to save, change its permissions or choose another path.`;
    case IOERR:
      return `Reading or writing the database ${path} failed. Nothing of this call was stored; check the disk.`;
    case CORRUPT:
      return `The database ${path} is damaged. Restore the file from a backup. Run verify to see what it affects.`;
    case FULL:
      return `The disk is full, so nothing of this call was stored in ${path}. What was stored before is safe; free some space and retry.`;
    case CANTOPEN:
      return `The database ${path} cannot be opened: the path is not a file, or its folder cannot be used. Check the path and its permissions.`;
    case NOTADB:
      return `The file ${path} is not a SQLite database. Choose another path, or restore the file from a backup.`;
    default:
      return `The database ${path} failed unexpectedly${code === undefined ? '' : ` (SQLite code ${code})`}.`;
  }
}
