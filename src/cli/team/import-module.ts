import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';

/** What a module exports, by name. */
export type Module = Readonly<Record<string, unknown>>;

/** Loads a module of the person's own. It is code: it may do whatever it likes. */
export async function importModule(path: string): Promise<Module> {
  if (!existsSync(path)) throw new NotFoundError(`There is no module ${path}.`, { details: { path } });
  try {
    return (await import(pathToFileURL(path).href)) as Module;
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : String(cause);
    throw new InvalidInputError(`The module ${path} cannot be loaded: ${problem}`, { cause, details: { path } });
  }
}
