import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { applyRestore } from './apply-restore.ts';
import { captureWorkspace } from './capture-workspace.ts';
import { planRestore } from './plan-restore.ts';
import { WorkspaceCache } from './workspace-cache.ts';
import type { WorkspacePlan } from './workspace-plan.ts';
import { digestContent, type WorkspaceEntry, type WorkspaceState } from './workspace-state.ts';

let base: string;
let folder: string;
let outside: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'savestate-restore-'));
  folder = join(base, 'work');
  outside = join(base, 'outside');
  mkdirSync(folder);
  mkdirSync(outside);
  writeFileSync(join(outside, 'precious'), 'precious');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function write(path: string, content: string | Uint8Array = path): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}
const read = (path: string) => readFileSync(join(folder, path), 'utf8');
const at = (path: string) => join(folder, path);

/** Everything below a folder with its times, so that nothing can change unnoticed. */
function listing(root: string): string[] {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
  return ['.', ...names].map((name) => {
    const { mode, size, mtimeNs, ctimeNs, ino } = lstatSync(join(root, name), { bigint: true });
    return [name, mode, size, mtimeNs, ctimeNs, ino].join(' ');
  });
}

const brief = ({ changes }: WorkspacePlan) => changes.map(({ path, action }) => `${action} ${path}`);
const leftOf = ({ left }: Pick<WorkspacePlan, 'left'>) => left.map(({ path, reason }) => `${reason} ${path}`);

function stateOf(entries: Record<string, WorkspaceEntry>): WorkspaceState {
  return { entries, skipped: [], ignored: [] };
}
const fileEntry = (content: string): WorkspaceEntry => ({
  kind: 'file',
  mode: 0o644,
  sizeBytes: Buffer.byteLength(content),
  digest: digestContent(content),
  content,
});
const linkEntry = (target: string): WorkspaceEntry => ({ kind: 'link', target, digest: digestContent(target) });
const folderEntry: WorkspaceEntry = { kind: 'folder', mode: 0o755 };

async function restore(state: unknown, into = folder) {
  return applyRestore(await planRestore(state, into));
}

describe('[workspace.4] a plan', () => {
  test('lists what would be created, changed, deleted and given other permissions, with sizes', async () => {
    for (const path of ['gone/deep/file', 'changed', 'same', 'mode']) write(path);
    symlinkSync('same', at('link'));
    const state = await captureWorkspace(folder);
    rmSync(at('gone'), { recursive: true });
    write('changed', 'other content');
    chmodSync(at('mode'), 0o600);
    write('added/file', 'xy');
    unlinkSync(at('link'));
    symlinkSync('mode', at('link'));
    const plan = await planRestore(state, folder);
    expect(plan.changes).toMatchObject([
      { path: 'added', action: 'delete', kind: 'folder' },
      { path: 'added/file', action: 'delete', kind: 'file', sizeBeforeBytes: 2 },
      { path: 'changed', action: 'change', kind: 'file', sizeBytes: 7, sizeBeforeBytes: 13 },
      { path: 'gone', action: 'create', kind: 'folder' },
      { path: 'gone/deep', action: 'create', kind: 'folder' },
      { path: 'gone/deep/file', action: 'create', kind: 'file', sizeBytes: 14 },
      { path: 'link', action: 'change', kind: 'link' },
      { path: 'mode', action: 'chmod', kind: 'file', mode: 0o644, modeBefore: 0o600 },
    ]);
    expect(plan.unchangedCount).toBe(1);
    expect(plan.left).toEqual([]);
  });

  test('changes nothing, whatever it finds', async () => {
    for (const path of ['a/b/c', 'd', 'e.bin']) write(path);
    symlinkSync('d', at('link'));
    const state = await captureWorkspace(folder);
    rmSync(at('a/b'), { recursive: true });
    write('d', 'new');
    write('x/y');
    const before = listing(base);
    await planRestore(state, folder);
    await planRestore(state, join(base, 'not/there'));
    expect(listing(base)).toEqual(before);
  });

  test('finds nothing to do where nothing changed, also through the cache of the capture', async () => {
    for (const path of ['a', 'b/c']) write(path);
    const cache = new WorkspaceCache({ now: () => Date.now() + 60_000 });
    const state = await captureWorkspace(folder, {}, { cache });
    expect(await planRestore(state, folder, { cache })).toMatchObject({ changes: [], left: [], unchangedCount: 3 });
    const before = listing(folder);
    expect(await applyRestore(await planRestore(state, folder))).toMatchObject({ status: 'complete', done: [] });
    expect(listing(folder)).toEqual(before);
  });
});

describe('[workspace.6] a restore', () => {
  test('brings back deleted and changed files and takes away added ones', async () => {
    for (const path of ['a/b/c', 'changed', 'deleted']) write(path);
    write('tool', '#!/bin/sh');
    chmodSync(at('tool'), 0o755);
    symlinkSync('a/b', at('link'));
    const state = await captureWorkspace(folder);
    rmSync(at('a'), { recursive: true });
    rmSync(at('tool'));
    unlinkSync(at('link'));
    unlinkSync(at('deleted'));
    write('changed', 'x');
    write('added/deep/er', 'x');
    const report = await restore(state);
    expect(report).toMatchObject({ status: 'complete', failed: [], left: [] });
    expect(await captureWorkspace(folder)).toEqual(state);
    expect(read('changed')).toBe('changed');
    expect(lstatSync(at('tool')).mode & 0o777).toBe(0o755);
    expect(readlinkSync(at('link'))).toBe('a/b');
    expect(existsSync(at('added'))).toBe(false);
  });

  test('into a folder that is not there makes it', async () => {
    write('a/b');
    const state = await captureWorkspace(folder);
    const target = join(base, 'new/place');
    expect((await restore(state, target)).status).toBe('complete');
    expect(readFileSync(join(target, 'a/b'), 'utf8')).toBe('a/b');
  });

  test('turns files into folders into links and back', async () => {
    const kinds = {
      file: () => write('x', 'file'),
      folder: () => write('x/y/z', 'folder'),
      link: () => symlinkSync('other', at('x')),
    };
    write('other');
    for (const from of Object.values(kinds)) {
      for (const to of Object.values(kinds)) {
        from();
        const state = await captureWorkspace(folder);
        rmSync(at('x'), { recursive: true });
        to();
        expect((await restore(state)).status).toBe('complete');
        expect(await captureWorkspace(folder)).toEqual(state);
        rmSync(at('x'), { recursive: true });
      }
    }
  });

  test('works through folders that do not let themselves be changed, and puts their permissions back', async () => {
    write('locked/inner/file', 'old');
    write('locked/inner/gone', 'gone');
    chmodSync(at('locked/inner'), 0o555);
    chmodSync(at('locked'), 0o555);
    const state = await captureWorkspace(folder);
    chmodSync(at('locked'), 0o755);
    chmodSync(at('locked/inner'), 0o755);
    write('locked/inner/file', 'new');
    unlinkSync(at('locked/inner/gone'));
    chmodSync(at('locked/inner'), 0o500);
    const report = await restore(state);
    expect(report.failed).toEqual([]);
    expect(read('locked/inner/file')).toBe('old');
    expect(['locked', 'locked/inner'].map((path) => lstatSync(at(path)).mode & 0o777)).toEqual([0o555, 0o555]);
    chmodSync(at('locked'), 0o755);
    chmodSync(at('locked/inner'), 0o755);
  });

  test('replaces each file whole: who has it open keeps what was there, and nothing is left beside it', async () => {
    write('a', 'captured');
    const state = await captureWorkspace(folder);
    write('a', 'changed');
    const { ino } = lstatSync(at('a'));
    const plan = await planRestore(state, folder);
    write('.savestate-0123456789abcdef.tmp', 'left by a restore that was killed');
    await expect(applyRestore(plan)).rejects.toMatchObject({ code: 'CONFLICT' });
    await restore(state);
    expect(lstatSync(at('a')).ino).not.toBe(ino);
    expect(readdirSync(folder)).toEqual(['a']);
  });

  test('never gives a file the rights of someone else', async () => {
    write('tool', 'x');
    chmodSync(at('tool'), 0o4755);
    const state = await captureWorkspace(folder);
    rmSync(at('tool'));
    await restore(state);
    expect(lstatSync(at('tool')).mode & 0o7777).toBe(0o755);
  });
});

describe('[workspace.7] what a restore leaves alone', () => {
  test('ignored files, and folders for their sake', async () => {
    write('a');
    const state = await captureWorkspace(folder);
    for (const path of ['node_modules/x/index.js', 'pkg/node_modules/y', '.env', 'pkg/added']) write(path);
    const report = await restore(state);
    expect(readdirSync(folder).sort()).toEqual(['.env', 'a', 'node_modules', 'pkg']);
    expect(readdirSync(at('pkg'))).toEqual(['node_modules']);
    expect(leftOf(report)).toEqual(['in-the-way pkg']);
    expect(report.status).toBe('partial');
  });

  test('what was skipped by the capture', async () => {
    write('big', 'x'.repeat(100));
    execFileSync('mkfifo', [at('pipe')]);
    const state = await captureWorkspace(folder, { maxFileBytes: 10 });
    expect((await restore(state)).status).toBe('complete');
    write('big', 'y'.repeat(100));
    const report = await restore(state);
    expect(leftOf(report)).toEqual(['content-not-captured big']);
    expect(read('big')).toBe('y'.repeat(100));
    expect(readdirSync(folder).sort()).toEqual(['big', 'pipe']);
  });

  test('everything that is not captured, if the limit of entries was met', async () => {
    for (const path of ['a', 'b', 'c', 'd']) write(path);
    const state = await captureWorkspace(folder, { maxEntries: 2 });
    write('a', 'changed');
    const report = await restore(state);
    expect(report.done.map(({ path }) => path)).toEqual(['a']);
    expect(leftOf(report)).toEqual(['content-not-captured .']);
    expect(report.status).toBe('partial');
    expect(readdirSync(folder).sort()).toEqual(['a', 'b', 'c', 'd']);
  });

  test('files whose content was redacted, if they differ', async () => {
    const entry = { ...fileEntry('key=sk-1'), content: 'key=[left out]' };
    const gone = { ...fileEntry('sk-2'), content: new SecretRef('key') };
    const state = { entries: { a: entry, b: gone }, skipped: [], ignored: [] };
    write('a', 'key=sk-1');
    const plan = await planRestore(state, folder);
    expect(leftOf(plan)).toEqual(['content-redacted b']);
    write('a', 'key=other');
    const report = await restore(state);
    expect(leftOf(report)).toEqual(['content-redacted a', 'content-redacted b']);
    expect(read('a')).toBe('key=other');
  });

  test('special files, and ignored ones that are where a file should be', async () => {
    execFileSync('mkfifo', [at('pipe')]);
    write('x/node_modules/y');
    const report = await restore(stateOf({ pipe: fileEntry('p'), x: fileEntry('x'), z: fileEntry('z') }));
    expect(leftOf(report)).toEqual(['special pipe', 'in-the-way x']);
    expect(read('z')).toBe('z');
    expect(existsSync(at('x/node_modules/y'))).toBe(true);
  });

  test('what the patterns of the restore ignore, whatever the state says', async () => {
    const hook = stateOf({
      '.git': folderEntry,
      '.git/hooks': folderEntry,
      '.git/hooks/pre-commit': fileEntry('evil'),
    });
    const report = await restore({ ...hook, ignored: ['!.git/'] });
    expect(leftOf(report)).toEqual(['ignored .git', 'in-the-way .git/hooks', 'in-the-way .git/hooks/pre-commit']);
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('[workspace.5] no state reaches outside the folder', () => {
  test.each(['../escape', '/escape', 'a/../../escape', 'x\0y', '..', 'a//b'])(
    'the path %j is refused whole',
    async (path) => {
      const before = listing(base);
      await expect(planRestore(stateOf({ [path]: fileEntry('x'), ok: fileEntry('ok') }), folder)).rejects.toMatchObject(
        {
          code: 'INVALID_INPUT',
          details: { path },
        },
      );
      expect(listing(base)).toEqual(before);
    },
  );

  test.each([
    [{ 'a/b': fileEntry('x') }, 'a/b'],
    [{ a: linkEntry('../outside'), 'a/b': fileEntry('x') }, 'a/b'],
    [{ a: fileEntry('x'), 'a/b/c': fileEntry('x') }, 'a/b/c'],
    [{ a: { kind: 'device' } }, 'a'],
    [{ a: { ...fileEntry('x'), mode: 0o4755 } }, 'a'],
    [{ a: { ...fileEntry('x'), digest: 'x' } }, 'a'],
    [{ a: null }, 'a'],
  ])('%j cannot have been captured', async (entries, path) => {
    const state = stateOf(entries as unknown as Record<string, WorkspaceEntry>);
    await expect(planRestore(state, folder)).rejects.toMatchObject({ code: 'INVALID_INPUT', details: { path } });
  });

  test.each([[undefined], [null], ['x'], [{}], [{ entries: [], skipped: [], ignored: [] }]])(
    'nor can %j',
    async (state) => {
      await expect(planRestore(state, folder)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    },
  );

  test('a link that is in the way is replaced, not followed', async () => {
    mkdirSync(at('a'));
    write('a/precious', 'inside');
    const state = await captureWorkspace(folder);
    rmSync(at('a'), { recursive: true });
    symlinkSync(outside, at('a'));
    expect((await restore(state)).status).toBe('complete');
    expect(read('a/precious')).toBe('inside');
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('precious');
  });

  test('a file link is replaced, and what it led to keeps its content and permissions', async () => {
    write('a', 'inside');
    const state = await captureWorkspace(folder);
    unlinkSync(at('a'));
    symlinkSync(join(outside, 'precious'), at('a'));
    chmodSync(join(outside, 'precious'), 0o600);
    await restore(state);
    expect(read('a')).toBe('inside');
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('precious');
    expect(lstatSync(join(outside, 'precious')).mode & 0o777).toBe(0o600);
  });

  test('what is behind an added link is not deleted with it', async () => {
    const state = await captureWorkspace(folder);
    symlinkSync(outside, at('added'));
    expect((await restore(state)).status).toBe('complete');
    expect(readdirSync(outside)).toEqual(['precious']);
  });

  test('a folder that becomes a link between plan and write is noticed', async () => {
    write('a/b/file', 'captured');
    const state = await captureWorkspace(folder);
    write('a/b/file', 'changed');
    const plan = await planRestore(state, folder);
    renameSync(at('a'), join(base, 'moved'));
    mkdirSync(join(outside, 'b'));
    writeFileSync(join(outside, 'b/file'), 'outside');
    symlinkSync(outside, at('a'));
    await expect(applyRestore(plan)).rejects.toMatchObject({ code: 'CONFLICT' });
    const report = await applyRestore(plan, { force: true });
    expect(report.failed).toMatchObject([{ path: 'a/b/file', action: 'change' }]);
    expect(readFileSync(join(outside, 'b/file'), 'utf8')).toBe('outside');
  });

  test('links are put back only if they stay inside', async () => {
    const entries = {
      abs: linkEntry('/etc/passwd'),
      up: linkEntry('../outside/precious'),
      in: linkEntry('real'),
      real: fileEntry('x'),
      dangling: linkEntry('nowhere'),
      folder: folderEntry,
      'folder/up': linkEntry('../real'),
      'folder/sly': linkEntry('x/../../../outside'),
    };
    const report = await restore(stateOf(entries));
    expect(leftOf(report)).toEqual([
      'link-leads-outside abs',
      'link-leads-outside folder/sly',
      'link-leads-outside up',
    ]);
    expect(readdirSync(folder).sort()).toEqual(['dangling', 'folder', 'in', 'real']);
    expect(read('folder/up')).toBe('x');
  });

  test('nor may a link lead outside through another that is there already', async () => {
    symlinkSync(outside, at('ext'));
    symlinkSync(join(outside, 'not-yet'), at('ext2'));
    const state = { ...stateOf({ sly: linkEntry('ext/precious'), sly2: linkEntry('ext2') }), ignored: ['ext*'] };
    const report = await restore(state);
    expect(report.failed.map(({ path }) => path)).toEqual(['sly', 'sly2']);
    expect(readdirSync(folder).sort()).toEqual(['ext', 'ext2']);
  });

  test('a link that leads outside stays where nothing changed', async () => {
    symlinkSync('/etc/passwd', at('link'));
    const state = await captureWorkspace(folder);
    expect(await planRestore(state, folder)).toMatchObject({ changes: [], left: [] });
  });
});

describe('[workspace.4] a folder that changed since the plan', () => {
  const changes: [string, () => void, string][] = [
    ['a file was changed', () => write('a', 'changed again'), 'a'],
    ['one that the plan leaves alone was changed', () => write('same', 'x'), 'same'],
    ['a file was added', () => write('new'), 'new'],
    ['a file was deleted', () => unlinkSync(at('same')), 'same'],
    ['permissions were changed', () => chmodSync(at('same'), 0o600), 'same'],
    ['a file became a link', () => renameSync(at('link'), at('same')), 'same'],
  ];

  test.each(changes)('is refused if %s', async (_, change, path) => {
    write('a', 'captured');
    write('same');
    symlinkSync('a', at('link'));
    const state = await captureWorkspace(folder);
    write('a', 'changed');
    const plan = await planRestore(state, folder);
    change();
    const before = listing(folder);
    await expect(applyRestore(plan)).rejects.toMatchObject({
      code: 'CONFLICT',
      details: { paths: expect.arrayContaining([path]) },
    });
    expect(listing(folder)).toEqual(before);
  });

  test('is refused if it is another folder', async () => {
    write('a');
    const state = await captureWorkspace(folder);
    unlinkSync(at('a'));
    const plan = await planRestore(state, folder);
    renameSync(folder, join(base, 'moved'));
    mkdirSync(folder);
    await expect(applyRestore(plan)).rejects.toMatchObject({ code: 'CONFLICT', details: { paths: ['.'] } });
  });

  test('is not refused for what is ignored', async () => {
    write('a');
    const state = await captureWorkspace(folder);
    unlinkSync(at('a'));
    const plan = await planRestore(state, folder);
    write('node_modules/x');
    expect((await applyRestore(plan)).status).toBe('complete');
  });

  test('is overwritten with force, where the plan says so and nowhere else', async () => {
    write('a', 'captured');
    const state = await captureWorkspace(folder);
    write('a', 'changed');
    const plan = await planRestore(state, folder);
    write('a', 'changed again');
    write('new');
    expect(brief(plan)).toEqual(['change a']);
    expect((await applyRestore(plan, { force: true })).failed).toEqual([]);
    expect([read('a'), read('new')]).toEqual(['captured', 'new']);
  });
});

describe('[workspace.6] failures', () => {
  test('are reported by path, and the rest goes on', async () => {
    for (const path of ['a', 'b', 'c']) write(path);
    const state = await captureWorkspace(folder);
    for (const path of ['a', 'b', 'c']) unlinkSync(at(path));
    const plan = await planRestore(state, folder);
    mkdirSync(at('b'));
    write('b/in-the-way');
    const report = await applyRestore(plan, { force: true });
    expect(report.status).toBe('partial');
    expect(report.failed).toMatchObject([{ path: 'b', action: 'create', problem: expect.stringContaining('EISDIR') }]);
    expect([read('a'), read('c')]).toEqual(['a', 'c']);
    expect(readdirSync(folder).sort()).toEqual(['a', 'b', 'c']);
  });

  test('stopped before any of its changes, a restore loses nothing and is completed by the next', LATER, async () => {
    for (const path of ['a', 'b/c', 'b/d', 'kind/x/y', 'same']) write(path);
    const state = await captureWorkspace(folder);
    const mutate = () => {
      rmSync(at('b'), { recursive: true, force: true });
      rmSync(at('kind'), { recursive: true, force: true });
      for (const path of ['a', 'kind', 'added/e/f', 'added/g']) write(path, 'changed');
    };
    mutate();
    const { changes } = await planRestore(state, folder);
    expect(changes.length).toBeGreaterThan(8);
    for (let stopAt = 0; stopAt < changes.length; stopAt++) {
      const stop = new AbortController();
      let asked = 0;
      const plan = await planRestore(state, folder);
      Object.defineProperty(stop.signal, 'throwIfAborted', {
        value: () => {
          if (asked++ > stopAt) throw new Error('Enough.');
        },
      });
      await expect(applyRestore(plan, { force: true, signal: stop.signal })).rejects.toThrow('Enough.');
      expect(read('same')).toBe('same');
      expect(await restore(state)).toMatchObject({ status: 'complete' });
      expect(await captureWorkspace(folder)).toEqual(state);
      mutate();
    }
    const signal = AbortSignal.abort(new Error('Enough.'));
    await expect(applyRestore(await planRestore(state, folder), { signal })).rejects.toThrow('Enough.');
  });

  test('no descriptors are left open', async () => {
    for (let at = 0; at < 30; at++) write(`d${at % 5}/e${at}/f`);
    const state = await captureWorkspace(folder);
    const count = () => readdirSync('/proc/self/fd').length;
    const before = count();
    for (let round = 0; round < 5; round++) {
      rmSync(at('d1'), { recursive: true });
      write('d2/added');
      await restore(state);
      await captureWorkspace(folder);
    }
    expect(count()).toBeLessThanOrEqual(before + 2);
  });
});
