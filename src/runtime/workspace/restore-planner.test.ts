import { lstatSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { IgnoreList } from './ignore-list.ts';
import { type PlannerInput, RestorePlanner } from './restore-planner.ts';
import type { SurveyedPath } from './scan-folder.ts';
import { checkWorkspaceState, digestContent } from './workspace-state.ts';

const fileEntry = (content: string) => ({
  kind: 'file',
  mode: 0o644,
  sizeBytes: content.length,
  digest: digestContent(content),
  content,
});
const linkEntry = (target: string) => ({ kind: 'link', target, digest: digestContent(target) });
const folderEntry = { kind: 'folder', mode: 0o755 };
const present: SurveyedPath = { kind: 'file', stats: lstatSync(import.meta.filename, { bigint: true }) };

function plan(entries: object, options: Partial<PlannerInput> & { there?: readonly string[] } = {}) {
  const { there = [], ...rest } = options;
  const { changes, left } = new RestorePlanner({
    state: checkWorkspaceState({ entries, skipped: [], ignored: [] }),
    survey: {
      folder: '/work',
      root: '1:1',
      paths: new Map(there.map((path) => [path, present])),
      ignored: new Set(),
      unreadable: new Set(),
    },
    digests: new Map(),
    ignore: new IgnoreList(),
    isCaseIgnored: false,
    platform: 'linux',
    ...rest,
  }).plan();
  return {
    changes: changes.map(({ action, path }) => `${action} ${path}`),
    left: left.map(({ reason, path }) => `${reason} ${path}`),
  };
}

describe('[workspace.7] names that mean something else elsewhere', () => {
  const twins = { A: folderEntry, 'A/x': fileEntry('1'), a: linkEntry('b'), b: fileEntry('2') };

  test('are put back one by one where case counts', () => {
    expect(plan(twins)).toEqual({ changes: ['create A', 'create A/x', 'create a', 'create b'], left: [] });
  });

  test('are put back once where it does not, so that neither goes into the other', () => {
    expect(plan(twins, { isCaseIgnored: true })).toEqual({
      changes: ['create A', 'create A/x', 'create b'],
      left: ['case-clash a'],
    });
  });

  test('nor is what has the name in another case deleted then', () => {
    expect(plan({ 'Read.me': fileEntry('x') }, { there: ['read.ME'] }).changes).toEqual([
      'create Read.me',
      'delete read.ME',
    ]);
    expect(plan({ 'Read.me': fileEntry('x') }, { there: ['read.ME'], isCaseIgnored: true }).changes).toEqual([
      'create Read.me',
    ]);
  });

  test('are left out on Windows, with all below them', () => {
    const entries = { aux: folderEntry, 'aux/x': fileEntry('x'), 'a:b': fileEntry('x'), ok: linkEntry('..\\..\\x') };
    expect(plan(entries, { platform: 'win32' })).toEqual({
      changes: [],
      left: ['reserved-name a:b', 'reserved-name aux', 'in-the-way aux/x', 'link-leads-outside ok'],
    });
    expect(plan(entries).left).toEqual([]);
  });
});
