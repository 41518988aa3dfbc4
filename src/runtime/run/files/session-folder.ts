import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StorageError } from '../../../core/errors.ts';
import { makeFolder } from '../../../storage/make-folder.ts';

/** A moment as it stands in names: `20261116_031415`, in UTC. */
export function formatStamp(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '_');
}

const MAX_SAME_NAME = 1000;

/** Creates a folder that is new, also when another was made in the same second. */
export async function createUniqueFolder(parent: string, name: string): Promise<string> {
  try {
    makeFolder(parent);
  } catch (error) {
    throw wrap(error, parent);
  }
  for (let count = 1; count <= MAX_SAME_NAME; count++) {
    const path = join(parent, count === 1 ? name : `${name}_${count}`);
    try {
      await mkdir(path);
      return path;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw wrap(error, path);
    }
  }
  throw new StorageError(`${parent} has ${MAX_SAME_NAME} folders named ${name}. Remove some.`);
}

function wrap(cause: unknown, path: string): StorageError {
  return new StorageError(`The folder ${path} cannot be made.`, { cause, details: { path } });
}

/** The folder of a session's files, if it has one below this root. */
export async function findSessionFolder(root: string, sessionId: string): Promise<string | undefined> {
  const names = await readdir(root).catch(() => []);
  for (const name of names.filter((entry) => entry.startsWith('session_')).sort()) {
    const folder = join(root, name);
    if ((await readSessionId(folder)) === sessionId) return folder;
  }
  return undefined;
}

/** The session that a folder holds the files of; undefined if it is a folder of somebody else, or was cut short before its first checkpoint. */
export async function readSessionId(folder: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(join(folder, 'session_metadata.json'), 'utf8')).session_id;
  } catch {
    return undefined;
  }
}

/** Writes a file so that a reader sees the old or the new one, never half of it. */
export async function writeFileWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID().slice(0, 8)}.writing`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}

/** Removes what a killed process left of files that it was writing. */
export async function removeUnfinished(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((entry) => UNFINISHED.test(entry))) await rm(join(folder, name), { force: true });
}

const UNFINISHED = /\.[0-9a-f]{8}\.writing$/;

/** Writes a value as JSON for people to read. */
export async function writeJsonFile(path: string, value: unknown): Promise<void> {
  await writeFileWhole(path, `${JSON.stringify(value, null, 2)}\n`);
}
