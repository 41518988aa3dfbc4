import { randomUUID } from 'node:crypto';
import { readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

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
