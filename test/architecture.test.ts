import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BUILT } from './support/built.ts';
import { temporaryFolder } from './support/storages.ts';

const ROOT = resolve(import.meta.dirname, '..');
const PAGE = readFileSync(join(ROOT, 'docs/ARCHITECTURE.md'), 'utf8');

/** The rows of a table by the words in its head. */
function rowsBelow(head: string): string[][] {
  const [, after = ''] = PAGE.split(head);
  const [table = ''] = after.trimStart().split('\n\n');
  return table
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^[| -]+$/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

const unquoted = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);

const sources = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.endsWith('.test.ts'))
  .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));

describe('docs/ARCHITECTURE.md', () => {
  const layers = new Map(rowsBelow('| layer | does | may import |').map(([name = '', , below = '']) => [name, below]));

  test('allows each layer just what it imports', () => {
    const found = new Map<string, Set<string>>();
    for (const path of sources.filter((name) => name.split('/').length > 2)) {
      const own = `src/${path.split('/')[1]}`;
      const below = found.get(own) ?? new Set<string>();
      found.set(own, below);
      const text = readFileSync(join(ROOT, path), 'utf8');
      for (const [, specifier = ''] of text.matchAll(/(?:from |import\()'(\.[^']+)'/g)) {
        const layer = relative(join(ROOT, 'src'), resolve(ROOT, dirname(path), specifier)).split('/')[0] ?? '';
        if (`src/${layer}` !== own) below.add(layer);
      }
    }
    const stated = [...layers].map(([name, below]) => [unquoted(name)[0], unquoted(below).sort()] as const);
    const imported = [...found].map(([name, below]) => [name, [...below].sort()] as const);
    expect(Object.fromEntries(stated)).toEqual(Object.fromEntries(imported));
  });

  test('has a line for each room, and for nothing else', () => {
    const rooms = [...PAGE.matchAll(/^\| `(src\/[^`]+)` +\| [^|]+ \|$/gm)].map(([, name = '']) => name);
    const folders = new Set(sources.map((path) => dirname(path)).filter((folder) => folder !== 'src'));
    expect(rooms.sort()).toEqual([...folders].sort());
  });

  test('says how many files the walks pass', { timeout: 120_000 }, () => {
    const child = join(ROOT, 'test/support/walk-child.mjs');
    const folder = temporaryFolder();
    const output = execFileSync(process.execPath, [child, BUILT, folder], { encoding: 'utf8', cwd: folder });
    const walked = JSON.parse(output) as Record<string, readonly string[]>;
    const stated = rowsBelow('| walk | files | of them, by layer |').map(([name = '', files = '']) => [
      name,
      Number(files),
    ]);
    expect(stated.map(([name]) => name)).toEqual(Object.keys(walked));
    // A retry that a busy machine causes may pass a file more.
    for (const [name = '', files = 0] of stated)
      expect(Math.abs((walked[name]?.length ?? 0) - Number(files)), `files of ${name}`).toBeLessThanOrEqual(6);
  });
});
