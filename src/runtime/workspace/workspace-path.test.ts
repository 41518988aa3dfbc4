import { describe, expect, test } from 'vitest';
import { comparePaths, findPathFault, findReservedName, foldCase, staysInside } from './workspace-path.ts';

describe('[workspace.5] paths of a state', () => {
  test.each([
    '../x',
    'a/../../x',
    '..',
    '.',
    './x',
    'a/./b',
    '/etc/passwd',
    '//x',
    'a//b',
    'a/',
    '',
    'a\0b',
    '\ud800',
    'x/..',
  ])('%j is refused', (path) => expect(findPathFault(path)).toBeDefined());

  test.each([
    'x',
    'a/b',
    '...',
    '..a',
    'a..',
    'C:/x',
    'a\\..\\b',
    'nul',
    '%2e%2e/x',
    ' ',
    '__proto__/constructor',
    'é',
  ])('%j is a name like any other', (path) => expect(findPathFault(path)).toBeUndefined());

  test.each(['CON', 'aux.txt', 'a/NUL', 'com1', 'LPT9.log', 'a:b', 'C:/x', 'a\\b', 'end.', 'end ', 'a?', 'a\nb'])(
    '%j is reserved on Windows, and only there',
    (path) => {
      expect(findReservedName(path, 'win32')).toBeDefined();
      expect(findReservedName(path, 'linux')).toBeUndefined();
    },
  );

  test.each(['console', 'auxiliary', 'com10x', 'nulls.txt', '.gitignore'])('%j is not', (path) =>
    expect(findReservedName(path, 'win32')).toBeUndefined(),
  );

  test.each([
    ['link', 'file', true],
    ['link', './a/b', true],
    ['link', '..', false],
    ['link', '../x', false],
    ['a/link', '../x', true],
    ['a/link', '..', true],
    ['a/link', '../../x', false],
    ['a/link', 'b/../x', false],
    ['a/b/link', '../../x', true],
    ['a/b/link', '.././../../x', false],
    ['link', '/etc/passwd', false],
    ['link', '', false],
    ['link', 'a\0b', false],
    ['link', '...', true],
  ])('the link %j to %j stays inside: %s', (path, target, isInside) => {
    expect(staysInside(path, target, 'linux')).toBe(isInside);
  });

  test('links of Windows have more ways out', () => {
    expect(['..\\x', 'C:x', 'x'].map((target) => staysInside('link', target, 'win32'))).toEqual([false, false, true]);
  });

  test('names that differ in case or composition only are one on some systems', () => {
    expect(foldCase('A/É')).toBe(foldCase('a/e\u0301'));
  });

  test('a folder comes before what is in it, and that before its neighbours', () => {
    expect(['a-b', 'a/c', 'b', 'a', 'a.b', 'a/b/c'].sort(comparePaths)).toEqual([
      'a',
      'a/b/c',
      'a/c',
      'a-b',
      'a.b',
      'b',
    ]);
  });
});
