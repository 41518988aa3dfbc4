import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';

/** Writes a file so that a reader sees the old or the new one, never half of it. */
export async function writeFileWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID().slice(0, 8)}.writing`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}

/** Writes a value as JSON for people to read. */
export async function writeJsonFile(path: string, value: unknown): Promise<void> {
  await writeFileWhole(path, `${JSON.stringify(value, null, 2)}\n`);
}
