import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { processorMs } from '../../../test/support/clock.ts';
import { trials } from '../../../test/support/trials.ts';
import { IgnoreList } from './ignore-list.ts';

describe('[workspace.2] the ignore list', () => {
  test.each([
    ['*.pyc', 'a.pyc', true],
    ['*.pyc', 'deep/er/a.pyc', true],
    ['*.pyc', 'a.pyc.txt', false],
    ['*.pyc', 'a.pyc/inside', true],
    ['node_modules/', 'node_modules/x/index.js', true],
    ['node_modules/', 'sub/node_modules/x', true],
    ['node_modules/', 'node_modules', false],
    ['/build', 'build', true],
    ['/build', 'sub/build', false],
    ['sub/build', 'sub/build/x', true],
    ['sub/build', 'other/sub/build', false],
    ['**/logs', 'a/b/logs', true],
    ['**/logs', 'logs', true],
    ['a/**/z', 'a/z', true],
    ['a/**/z', 'a/b/c/z', true],
    ['a/**/z', 'a/b/c', false],
    ['logs/**', 'logs/x', true],
    ['file?.txt', 'file1.txt', true],
    ['file?.txt', 'file10.txt', false],
    ['file[0-9a].txt', 'filea.txt', true],
    ['file[!0-9].txt', 'file5.txt', false],
    ['\\*.txt', '*.txt', true],
    ['\\*.txt', 'a.txt', false],
    ['[ab', '[ab', true],
    ['# remark', '# remark', false],
    ['', 'x', false],
    ['/', 'x', false],
    ['.env', '.environment', false],
    ['A', 'a', false],
  ])('%j and the path %j: %s', (pattern, path, isIgnored) => {
    expect(new IgnoreList([pattern]).ignoresWithin(path, false)).toBe(isIgnored);
  });

  test('the last pattern that fits decides; what is in an ignored folder stays ignored', () => {
    const list = new IgnoreList(['*.log', '!keep.log', 'tmp/', '!tmp/keep.log']);
    expect(['a.log', 'keep.log', 'tmp/keep.log'].map((path) => list.ignoresWithin(path, false))).toEqual([
      true,
      false,
      true,
    ]);
  });

  test('no list takes back what another ignores', () => {
    const both = new IgnoreList(['.git/'], ['!.git/', 'x']);
    expect(['.git/hooks/a', 'x', 'y'].map((path) => both.ignoresWithin(path, false))).toEqual([true, true, false]);
  });

  test('patterns made to be slow are not', () => {
    const name = 'a'.repeat(3000);
    const start = processorMs();
    new IgnoreList([`${'*a'.repeat(300)}b`, `${'**/'.repeat(200)}b`]).ignoresWithin(
      `${'a/'.repeat(500)}${name}`,
      false,
    );
    expect(processorMs() - start).toBeLessThan(5000);
  });

  const hasGit = spawnSync('git', ['--version']).status === 0;

  test.runIf(hasGit)('agrees with git on random patterns and paths', () => {
    const folder = mkdtempSync(join(tmpdir(), 'savestate-ignore-'));
    spawnSync('git', ['init', '-q', folder]);
    // Git has rules of its own for `a**`: `a**/**` ignores the folder itself, `a*/**` what is inside.
    const part = fc
      .string({ unit: fc.constantFrom('a', 'b', '.', '*', '?'), minLength: 1, maxLength: 4 })
      .filter((text) => !text.includes('**'));
    const isPlain = (text: string) => !/^\.+$/.test(text);
    const name = fc.string({ unit: fc.constantFrom('a', 'b', '.'), minLength: 1, maxLength: 3 }).filter(isPlain);
    const pattern = fc
      .tuple(
        fc.boolean(),
        fc.boolean(),
        fc.array(fc.oneof(part, fc.constant('**')), { minLength: 1, maxLength: 3 }),
        fc.boolean(),
      )
      .map(
        ([negated, bound, parts, folder]) =>
          `${negated ? '!' : ''}${bound ? '/' : ''}${parts.join('/')}${folder ? '/' : ''}`,
      );
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
    fc.assert(
      fc.property(
        fc.array(pattern, { minLength: 1, maxLength: 4 }),
        fc.uniqueArray(path, { minLength: 8, maxLength: 8 }),
        (patterns, paths) => {
          writeFileSync(join(folder, '.gitignore'), `${patterns.join('\n')}\n`);
          const git = spawnSync('git', ['-C', folder, 'check-ignore', '--no-index', '--stdin', '-z'], {
            input: paths.join('\0'),
          });
          const ignored = git.stdout
            .toString()
            .split('\0')
            .filter((text) => text !== '');
          const list = new IgnoreList(patterns);
          expect(paths.filter((text) => list.ignoresWithin(text, false)).sort()).toEqual(ignored.sort());
        },
      ),
      { numRuns: trials(1_500), seed: 20261116 },
    );
    rmSync(folder, { recursive: true });
  });
});
