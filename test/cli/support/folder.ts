import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const made: string[] = [];

afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
});

/** A folder that is gone when the file's tests have ended; also for tests that run at the same time. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-cli-'));
  made.push(folder);
  return folder;
}

/** Gives copies of a folder that is made once, when the first is asked for: what fills it takes a process or two. */
export function copiesOf(create: () => Promise<string>): () => Promise<string> {
  let made: Promise<string> | undefined;
  return async () => {
    made ??= create();
    const folder = newFolder();
    cpSync(await made, folder, { recursive: true });
    return folder;
  };
}
