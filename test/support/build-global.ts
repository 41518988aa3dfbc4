import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');

/** Builds the library if a source is newer than the last build: tests that start processes run what is built. */
export function setup(): void {
  if (newestBelow('src') <= timeOf('dist/cli/main.js')) return;
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: 'inherit' });
}

function newestBelow(folder: string): number {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  return Math.max(...names.map((name) => timeOf(join(folder, name))));
}

function timeOf(path: string): number {
  return statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
