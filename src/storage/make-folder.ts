import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/**
 * Makes a folder, and those above it, where they are missing; throws if that cannot be. Step by step: `mkdir` with `recursive` tries for
 * ever where a system has folders that nothing can be made in, such as `/proc`.
 */
export function makeFolder(path: string): void {
  if (isFolder(path)) return;
  const parent = dirname(resolve(path));
  if (parent !== resolve(path)) makeFolder(parent);
  try {
    mkdirSync(path);
  } catch (error) {
    if (!isFolder(path)) throw error; // otherwise another process was faster
  }
}

/** Whether there is a folder at a path, as far as it may be looked at. */
export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // also below a file, where nothing can be
  }
}
