import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BUILT } from './support/built.ts';

const ROOT = resolve(import.meta.dirname, '..');

/** Tests may look at what is above them to build real parts. */
const isTest = (path: string) => path.endsWith('.test.ts') || path.startsWith('test/');

function filesBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(tsx?|mjs)$/.test(entry.name))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const sources = filesBelow('src');
const tests = [...sources.filter(isTest), ...filesBelow('test')].filter((path) => !path.includes('/golden/'));

function importsOf(path: string): string[] {
  return [
    ...read(path).matchAll(/^(?:import|export)\b[^;']*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm),
  ].map(([, named, bare, lazy]) => named ?? bare ?? lazy ?? '');
}

/** Functions of their arguments alone. */
const PURE_MODULES = new Set(['node:crypto', 'node:util']);

describe('layers', () => {
  const modules = sources.filter((path) => !isTest(path) && path.split('/').length > 2);

  test.each(modules.filter((path) => path.startsWith('src/core/')))('%s is pure', (path) => {
    const foreign = importsOf(path).filter((specifier) => !specifier.startsWith('.') && !PURE_MODULES.has(specifier));
    expect(foreign).toEqual([]);
    expect(read(path)).not.toMatch(/Date\.now|Math\.random|\bprocess\.[a-z]|performance\.[a-z]/);
  });

  test.each(modules.filter((path) => !path.startsWith('src/cli/')))('%s does not touch the person', (path) => {
    expect(read(path)).not.toMatch(/console\.[a-z]+\(|process\.(stdout|stderr|argv|env)\b/);
  });
});

describe('data never becomes code', () => {
  /** A constant text of ours, or a module that the person at the command line or their own configuration names. */
  const ALLOWED = new Set([
    'src/memory/log/local-embedder.ts',
    'src/storage/database/sqlite-close.ts',
    'src/cli/team/import-module.ts',
    'src/cli/langgraph/places.ts',
    'src/cli/commands/setup/demo.ts',
  ]);
  const MAKES_CODE = /\beval\(|\bnew Function\b|\bnode:vm\b|\bimport\((?!\s*['"])|\bsetTimeout\(['"`]/;

  test('nothing evaluates text or loads a module that is named by a value', () => {
    const found = sources.filter(
      (path) => !isTest(path) && MAKES_CODE.test(read(path).replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '')),
    );
    expect(found.filter((path) => !ALLOWED.has(path))).toEqual([]);
    expect([...ALLOWED].filter((path) => !found.includes(path))).toEqual([]);
  });
});

describe('rooms', () => {
  const inRooms = sources.filter((path) => !isTest(path));
  /** An index is the door of its folder: nothing inside goes through it. */
  const roomOf = (path: string) => (path.endsWith('/index.ts') ? path : dirname(path));

  test('no folder has more than 20 files', () => {
    const sizes = new Map<string, number>();
    for (const path of inRooms) sizes.set(dirname(path), (sizes.get(dirname(path)) ?? 0) + 1);
    expect([...sizes].filter(([, size]) => size > 20)).toEqual([]);
  });

  test('no two folders import each other, over any detour', () => {
    const reached = new Map<string, Set<string>>();
    for (const path of inRooms) {
      const rooms = reached.get(roomOf(path)) ?? new Set<string>();
      reached.set(roomOf(path), rooms);
      for (const specifier of importsOf(path).filter((name) => name.startsWith('.')))
        rooms.add(roomOf(relative(ROOT, resolve(ROOT, dirname(path), specifier))));
      rooms.delete(roomOf(path));
    }
    // Rooms that import nothing that is left are taken away; what stays goes in circles, or leads there.
    for (let last = -1; last !== reached.size; ) {
      last = reached.size;
      for (const [room, others] of reached) if (![...others].some((other) => reached.has(other))) reached.delete(room);
    }
    expect([...reached.keys()]).toEqual([]);
  });
});

describe('files', () => {
  test.each([...new Set([...sources, ...tests])])('%s is of a size one can read', (path) => {
    const lines = read(path)
      .split('\n')
      .filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line));
    expect(lines.length).toBeLessThanOrEqual(isTest(path) || path.startsWith('src/testing/contract') ? 500 : 300);
  });

  test('names say what a file exports, in kebab case', () => {
    const odd = sources.filter(
      (path) => !/^[a-z0-9-]+(\.property)?(\.test)?\.tsx?$/.test(path.split('/').at(-1) ?? ''),
    );
    expect(odd).toEqual([]);
    expect(sources.filter((path) => /utils?|helpers?|impl|misc|common\b/.test(path))).toEqual([]);
  });

  test('nothing is loosened or left open', () => {
    const loose = [...sources, ...tests].filter(
      (path) =>
        path !== 'test/tidy.test.ts' &&
        /@ts-(ignore|nocheck)|: any[;,)[\]]|\bas any[;,)[\]]|\bTODO\b|\bFIXME\b|\.(only|todo)\(/.test(read(path)),
    );
    expect(loose).toEqual([]);
  });
});

describe('the specification', () => {
  const written = [...read('docs/SPEC.md').matchAll(/^- \*\*\[([^\]]+)\]\*\* (.+)$/gm)];
  const rules = written.map(([, id = '']) => id);
  const cited = new Set(
    [...tests, ...sources.filter((path) => path.startsWith('src/testing/'))].flatMap((path) =>
      [...read(path).matchAll(/\[([a-z]+\.\d+|[A-Z]\d+)\]/g)].map(([, id = '']) => id),
    ),
  );

  test('no rule is written twice', () => {
    expect(rules.filter((id, at) => rules.indexOf(id) !== at)).toEqual([]);
  });

  test('rules are numbered in their area from 1, without gaps', () => {
    const areas = [...new Set(rules.map((id) => id.replace(/\.\d+$/, '')))];
    const counts = areas.map((area) => rules.filter((id) => id.startsWith(`${area}.`)).length);
    expect(areas.filter((area) => !/^[a-z]+$/.test(area))).toEqual([]);
    expect(rules).toEqual(
      areas.flatMap((area, at) => Array.from({ length: counts[at] ?? 0 }, (_, n) => `${area}.${n + 1}`)),
    );
  });

  test('there are at most 350 rules, each one sentence of at most 45 words', () => {
    expect(rules.length).toBeLessThanOrEqual(350);
    const isOneSentence = (text: string) => text.endsWith('.') && !/\. [A-Z`]/.test(text);
    const odd = written.filter(([, , text = '']) => text.split(/\s+/).length > 45 || !isOneSentence(text));
    expect(odd.map(([, id]) => id)).toEqual([]);
  });

  test('every rule is cited by a test', () => {
    expect(rules.filter((id) => !cited.has(id))).toEqual([]);
  });

  test('every citation names a rule', () => {
    expect([...cited].filter((id) => !rules.includes(id)).sort()).toEqual([]);
  });
});

test('package-lock.json has the optional packages of all systems, so that npm ci works on each', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>;
  };
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !(`node_modules/${name}` in packages || `${path}/node_modules/${name}` in packages),
    ),
  );
  expect(missing).toEqual([]);
});

describe('what is public', () => {
  test('the seam of the package is not in its types', () => {
    expect(read('src/manager/checkpoint-manager.ts')).toContain('readonly engine: Engine');
    expect(readFileSync(join(BUILT, 'manager/checkpoint-manager.d.ts'), 'utf8')).not.toMatch(/\bEngine\b|\bengine:/);
  });
});
