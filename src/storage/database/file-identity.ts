import { type BigIntStats, statSync } from 'node:fs';
import { StorageError } from '../../core/errors.ts';

/**
 * Which file an open database is. A file that is deleted or replaced while it is open still takes writes, and all of them are gone with
 * the process; only its path tells. A look costs two or three microseconds.
 */
export class FileIdentity {
  readonly #path: string;
  readonly #files: readonly { readonly path: string; readonly found: BigIntStats | undefined }[];

  /** Remembers the file at this path, its log and the index of that, as far as they are there. */
  constructor(path: string) {
    this.#path = path;
    this.#files = [path, `${path}-wal`, `${path}-shm`].map((file) => ({ path: file, found: lookAt(file) }));
  }

  /** Throws a StorageError if another file, or none, is at the path now. */
  check(): void {
    for (const { path, found } of this.#files) {
      const now = found === undefined ? undefined : lookAt(path);
      if (now?.ino === found?.ino && now?.dev === found?.dev) continue;
      throw new StorageError(
        `The file ${path} was ${now === undefined ? 'deleted or moved' : 'replaced by another file'} while it was open, so nothing more is read from it or saved to it. Put the file back, or close the storage and open it again.`,
        // What was just written may be in the file that is gone, or in the one that is there.
        { details: { path: this.#path, outcome: 'unknown' } },
      );
    }
  }
}

function lookAt(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}
