import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { codeOf, InvalidInputError, NotFoundError } from '../../core/errors.ts';

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'you may not read it',
};

/** Reads a file that a person named, `-` for what is typed or piped; `what` it is stands in the error. */
export function readText(path: string, what: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (cause) {
    const code = codeOf(cause) ?? String(cause);
    throw new NotFoundError(`The ${what} ${path} cannot be read: ${REASONS[code] ?? code}. Name another file.`, {
      cause,
      details: { path },
    });
  }
}

/** More than anybody writes into one, and little enough to be read by whoever only looks. */
const MAX_CONFIGURED_BYTES = 4 * 1024 * 1024;

/** Reads a file that a folder brings along, as a stranger's may: no pipe or device, which may never end, and of bounded size. */
export function readConfigured(path: string, what: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || (found.isFile() && found.size <= MAX_CONFIGURED_BYTES)) return readText(path, what);
  if (found.isDirectory()) return readText(path, what); // says so
  const problem = found.isFile() ? `is larger than ${MAX_CONFIGURED_BYTES / 1024 ** 2} MiB` : 'is no regular file';
  throw new InvalidInputError(`The ${what} ${path} ${problem}, and was not read. Name another file.`, {
    details: { path },
  });
}

/** The path of a file that somebody named; a folder is refused in their words. */
export function resolveFile(folder: string, named: string): string {
  const path = resolve(folder, named);
  if (!existsSync(path) || !statSync(path).isDirectory()) return path;
  throw new InvalidInputError(`"${named}" was named where a file is needed, and ${path} is a folder. Name a file.`, {
    details: { named, path },
  });
}
