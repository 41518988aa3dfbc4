import { existsSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { InvalidInputError, messageOf, NotFoundError } from '../../core/errors.ts';

/** What a module exports, by name. */
export type Module = Readonly<Record<string, unknown>>;

/** Loads a module of the person's own. It is code: it may do whatever it likes. */
export async function importModule(path: string): Promise<Module> {
  if (!existsSync(path)) throw new NotFoundError(`There is no module ${path}.`, { details: { path } });
  try {
    return (await import(pathToFileURL(path).href)) as Module;
  } catch (cause) {
    const problem = messageOf(cause);
    throw new InvalidInputError(`The module ${path} cannot be loaded: ${problem}`, { cause, details: { path } });
  }
}

/**
 * A module that nobody named but a file, or its place, may be code of somebody else: it must lie beside the file, where whoever named
 * the file put it. Returns it.
 */
export function requireBeside(file: string, module: string): string {
  if (isBeside(file, module)) return module;
  throw new InvalidInputError(
    `The module "${module}" of ${file} is not in its folder, links followed. Code elsewhere is only run if you choose it: name it yourself with --registry <module>, or in savestate.yaml ("registry: ...").`,
    { details: { path: file, registry: module } },
  );
}

/** Whether a module is in the folder of a file or below, links followed, and not among installed packages. */
function isBeside(file: string, module: string): boolean {
  if (!existsSync(module)) return true; // that it is not there is told when it is loaded
  const path = relative(realpathSync(dirname(file)), realpathSync(module));
  return !isAbsolute(path) && !path.split(sep).some((part) => part === '..' || part === 'node_modules');
}
