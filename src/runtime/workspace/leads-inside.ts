import { lstat, readlink } from 'node:fs/promises';
import { isAbsolute, join, relative } from 'node:path';

/** More links than the system follows lead nowhere. */
const MAX_LINKS = 40;

const NO_NAMES = new Set(['', '.', '..']);

/** Whether a link ends up inside the folder, through whatever other links it leads, also if there is nothing at its end. */
export async function leadsInside(folder: string, linkPath: string): Promise<boolean> {
  const pending = linkPath.split('/');
  const reached: string[] = [];
  let links = 0;
  while (pending.length > 0 && links <= MAX_LINKS) {
    const part = pending.shift() ?? '';
    if (part === '..' && reached.pop() === undefined) return false;
    if (NO_NAMES.has(part)) continue;
    const target = await readTarget(join(folder, ...reached, part));
    if (target === undefined) {
      reached.push(part);
      continue;
    }
    links++;
    if (isAbsolute(target)) reached.length = 0;
    pending.unshift(...(isAbsolute(target) ? relative(folder, target) : target).split('/'));
  }
  return true;
}

async function readTarget(path: string): Promise<string | undefined> {
  try {
    return (await lstat(path)).isSymbolicLink() ? await readlink(path) : undefined;
  } catch {
    return undefined; // nothing is there, so nothing leads on
  }
}
