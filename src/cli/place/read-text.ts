import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';

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
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
    throw new NotFoundError(`The ${what} ${path} cannot be read: ${REASONS[code] ?? code}. Name another file.`, {
      cause,
      details: { path },
    });
  }
}

/** The path of a file that somebody named; a folder is refused in their words. */
export function resolveFile(folder: string, named: string): string {
  const path = resolve(folder, named);
  if (!existsSync(path) || !statSync(path).isDirectory()) return path;
  throw new InvalidInputError(`"${named}" was named where a file is needed, and ${path} is a folder. Name a file.`, {
    details: { named, path },
  });
}
