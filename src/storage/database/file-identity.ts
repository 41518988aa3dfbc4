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

  /** Throws a StorageError if another file, or none, is at the path now. Returns the bytes of the log. */
  check(): bigint {
    let logBytes = 0n;
    for (const { suffix, found } of this.#files) {
      if (found === undefined) continue;
      const now = lookAt(this.#path + suffix);
      if (now === undefined) throw changedFile(this.#path, suffix, 'deleted or moved');
      if (now.ino !== found.ino || now.dev !== found.dev)
        throw changedFile(this.#path, suffix, 'replaced by another file');
      logBytes = now.size;
    }
    return logBytes;
  }
}

/** The error for a database one of whose files somebody else has changed, so that what was or will be saved is lost. */
export function changedFile(path: string, suffix: string, change: string): StorageError {
  return new StorageError(
    `The file ${path}${suffix} was ${change} while it was open, so nothing more is read from it or saved to it. Put the file back, or close the storage and open it again.`,
    // What was just written may be in the file that is gone, or in the one that is there.
    { details: { path, outcome: 'unknown' } },
  );
}

function lookAt(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}
