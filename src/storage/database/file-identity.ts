import { type BigIntStats, statSync } from 'node:fs';
import { StorageError } from '../../core/errors.ts';

/**
 * Which file an open database is. A file that is deleted or replaced while it is open still takes writes, and all of them are gone with
 * the process; only its path tells. A look costs two or three microseconds.
 */
export class FileIdentity {
  readonly #path: string;
  readonly #files: readonly { readonly suffix: string; readonly found: BigIntStats | undefined }[];

  /** Remembers the file at this path, its log and the index of that, as far as they are there. */
  constructor(path: string) {
    this.#path = path;
    this.#files = ['', '-shm', '-wal'].map((suffix) => ({ suffix, found: lookAt(path + suffix) }));
  }

  /**
   * Throws a StorageError if another file, or none, is at the path now, or the index is shorter than it was, which SQLite never does to
   * it. Returns the bytes of the log. `outcome` is what became of the work.
   */
  check(outcome: Outcome): bigint {
    let logBytes = 0n;
    for (const { suffix, found } of this.#files) {
      if (found === undefined) continue;
      const now = lookAt(this.#path + suffix);
      const change = now === undefined ? 'deleted or moved' : changeOf(suffix, found, now);
      if (change !== undefined) throw changedFile(this.#path + suffix, change, outcome);
      logBytes = now?.size ?? 0n;
    }
    return logBytes;
  }

  isThere(): boolean {
    try {
      this.check('none');
      return true;
    } catch {
      return false;
    }
  }
}

/** Whether what was asked for may be in a file: in the one that is gone, or in the one that is there. */
type Outcome = 'none' | 'unknown';

function changeOf(suffix: string, found: BigIntStats, now: BigIntStats): string | undefined {
  if (now.ino !== found.ino || now.dev !== found.dev) return 'replaced by another file';
  return suffix === '-shm' && now.size < found.size ? 'cut' : undefined;
}

/** The error for a database one of whose files somebody else has changed, so that what was or will be saved is lost. */
export function changedFile(file: string, change: string, outcome: Outcome): StorageError {
  const effect = outcome === 'none' ? 'nothing is read from it or saved to it' : 'what was just saved may be lost';
  return new StorageError(
    `The file ${file} was ${change} while it was open, so ${effect}. Put the file back, or close the storage and open it again.`,
    { details: { path: file, ...(outcome === 'unknown' && { outcome }) } },
  );
}

function lookAt(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}
