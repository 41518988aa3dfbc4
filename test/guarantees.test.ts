import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FAULT_LOOPS, SHORTENED } from '../vitest.faults.config.ts';

const ROOT = resolve(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const page = read('docs/GUARANTEES.md');

type Script = {
  readonly readLog: (log: string, day: string) => Map<string, string[]>;
  readonly readCases: (report: unknown) => readonly object[];
  readonly replaceRows: (
    page: string,
    rows: Map<string, string[]>,
    options?: { readonly cases?: readonly object[]; readonly isWhole?: boolean },
  ) => string;
};
const script = (): Promise<Script> => import(join(ROOT, 'scripts/guarantees.mjs')) as Promise<Script>;

describe('docs/GUARANTEES.md', () => {
  const rows = [...page.matchAll(/^\| ([DS]\d+) \| (.+?) \| (.+?) \|$/gm)];

  test('has a row for every promise, with a test that is there', () => {
    const numbers = (letter: string, count: number) => Array.from({ length: count }, (_, n) => `${letter}${n + 1}`);
    expect(rows.map(([, id]) => id)).toEqual([...numbers('D', 16), ...numbers('S', 14)]);
    for (const [, id, , shown = ''] of rows) {
      const files = [...shown.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, file = '']) => file);
      expect(files.length, id).toBeGreaterThan(0);
      expect(
        files.filter((file) => !existsSync(join(ROOT, file))),
        id,
      ).toEqual([]);
    }
  });

  test('takes its counts from the log of a full run, and keeps the rows that the run did not have', async () => {
    const { readLog, replaceRows } = await script();
    const log = [
      'noise',
      'FAULTS bit flips in file: n=900 failures=0 bound95=0.33% seed=1',
      'FAULTS a new loop: n=7 failures=1 bound95=43%',
    ];
    const after = replaceRows(page, readLog(log.join('\n'), '2030-01-02'));
    expect(after).toContain('| bit flips in file | 900 | 0 | 0.33% | 2030-01-02 |');
    expect(after).toContain('| a new loop | 7 | 1 | see the failures | 2030-01-02 |');
    expect(after).toContain('| bit flips in sqlite | ');
    expect(replaceRows(page, readLog(log.join('\n'), '2030-01-02'), { isWhole: true })).not.toContain(
      '| bit flips in sqlite | ',
    );
    expect(after.split('\n').length).toBe(page.split('\n').length + 1);
    expect(replaceRows(after, new Map())).toBe(after);
  });
});

test('a promise without a loop has the number of cases of its tests, if the run had all of them', async () => {
  const { readCases, replaceRows } = await script();
  const result = (name: string, ...statuses: string[]) => ({
    name: `/home/somebody/${name}`,
    assertionResults: statuses.map((status) => ({ status })),
  });
  const cases = (...results: object[]) => replaceRows(page, new Map(), { cases: readCases({ testResults: results }) });
  const lineOf = (text: string, id: string) => text.split('\n').find((line) => line.startsWith(`| ${id} |`)) ?? '';
  const shown = cases(result('test/studio/screens.test.ts', 'passed', 'failed', 'skipped'));
  expect(lineOf(shown, 'S9')).toMatch(/\| 2 cases of the tests, 1 \|$/);
  expect(lineOf(cases(result('src/storage/file/file-faults.test.ts', 'passed')), 'S10')).toBe(lineOf(page, 'S10'));
});

test('every loop that a promise counts is one that a test prints, and a soak has no rate', async () => {
  const { readLog, replaceRows } = await script();
  const log = [
    'clocks that jump',
    'soak',
    'hostile filters on sqlite',
    'planted secrets on sqlite',
    'changes below an encrypted storage',
    'requests of other sites',
    'hostile sizes over http',
    'fuzz, mcp',
    'changes to the chain of a session',
  ]
    .map((name) => `FAULTS ${name}: n=50 failures=0 bound95=6%`)
    .join('\n');
  const after = replaceRows(page, readLog(log, '2030-01-02'), { isWhole: true });
  const lineOf = (id: string) => after.split('\n').find((line) => line.startsWith(`| ${id} |`)) ?? '';
  for (const id of ['D8', 'D16', 'S3', 'S5', 'S6', 'S8', 'S11', 'S13', 'S14'])
    expect(lineOf(id), id).toContain(' 50 in 1 loop, 0');
  expect(lineOf('D16')).toMatch(/\| 50 in 1 loop, 0 \|$/);
});

describe('docs/SECURITY-MODEL.md', () => {
  const lines = read('docs/SECURITY-MODEL.md').split('\n');
  const rows = lines.filter((line) => line.startsWith('| ') && !/^\| (who |---)/.test(line));
  const tests = ['src', 'test']
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
    )
    .filter((name) => /\.test\.ts$|^src\/testing\/contract\//.test(name) && name.endsWith('.ts'))
    .map(read)
    .join('\n');

  test.each(rows)('names tests that are there: %s', (row) => {
    const shown = row.split(' | ').at(-1) ?? '';
    const files = [...shown.matchAll(/`([^`]+\.ts)`(?: \(([^)]*)\))?/g)];
    const ids = [...shown.matchAll(/\[([a-z]+\.\d+)\]/g)].map(([id]) => id);
    expect(files.length + ids.length).toBeGreaterThan(0);
    for (const [, file = '', titles = ''] of files) {
      expect(existsSync(join(ROOT, file)), file).toBe(true);
      for (const [, title = ''] of titles.matchAll(/"([^"]+)"/g)) expect(read(file), file).toContain(title);
    }
    for (const id of ids) expect(tests.includes(id), id).toBe(true);
  });
});

describe('the configuration of the fault loops', () => {
  const files = ['src', 'test'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(ROOT, join(entry.parentPath, entry.name))),
  );

  test('names files that are there', () => {
    const named = [...FAULT_LOOPS, ...SHORTENED];
    expect(named.filter((loop) => !files.some((file) => matches(file, loop)))).toEqual([]);
  });

  test('has every test that makes fewer trials elsewhere', () => {
    const shorter = files.filter((file) => file.endsWith('.test.ts') && /^import .*trials\.ts'/m.test(read(file)));
    const isNamed = (file: string) => [...FAULT_LOOPS, ...SHORTENED].some((loop) => matches(file, loop));
    expect(shorter.filter((file) => !isNamed(file))).toEqual([]);
  });
});

const matches = (file: string, pattern: string): boolean =>
  new RegExp(
    `^${pattern
      .replaceAll('.', '\\.')
      .replaceAll('**/', '(.*/)?')
      .replaceAll(/\{(.*?)\}/g, (_, ways: string) => `(${ways.replaceAll(',', '|')})`)
      .replaceAll(/(?<!\.)\*/g, '[^/]*')}$`,
  ).test(file);
