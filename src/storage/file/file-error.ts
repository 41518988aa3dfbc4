import { messageOf, StorageError } from '../../core/errors.ts';
import { hasFileCode } from './file-system.ts';

/** What a file storage was doing, and where. */
type Attempt = { readonly path: string; readonly what: string };

/** An error of the disk, with what to do. */
export function diskError(error: unknown, { path, what }: Attempt): StorageError {
  const reason = `The file storage in ${path} could not ${what}: ${explain(error)}.`;
  return new StorageError(reason, { details: { path }, cause: error });
}

function explain(error: unknown): string {
  if (hasFileCode(error, 'ENOSPC', 'EDQUOT'))
    return 'the disk is full. What was stored before is safe; free some space and retry';
  if (hasFileCode(error, 'EROFS')) return 'the disk is read-only. It can be looked at; to save, choose another path';
  if (hasFileCode(error, 'EACCES', 'EPERM'))
    return `permission was denied (${messageOf(error)}). Change the permissions of the folder or choose another path`;
  return `${messageOf(error)}. Check the path, its permissions and the disk`;
}

/** Whether the disk takes no new file. */
export function isWriteRefused(error: unknown): boolean {
  return hasFileCode(error, 'ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EPERM');
}

/** What is missing of an open store is not known to be all that is missing. */
export function folderGone(path: string, cause?: unknown): StorageError {
  return new StorageError(
    `The folder ${path}, or a part of it, was deleted or moved while it was open, so nothing is read from it or saved to it. Put it back, or close the storage and open it again.`,
    { details: { path }, cause },
  );
}
