import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { applyRestore } from './apply-restore.ts';
import { captureWorkspace } from './capture-workspace.ts';
import { type Anchor, OpenFolder } from './open-folder.ts';
import { planRestore } from './plan-restore.ts';
import { readWholeFile } from './read-whole-file.ts';
import type { WorkspaceState } from './workspace-state.ts';

let base: string;
let folder: string;
let outside: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'savestate-confined-'));
  folder = join(base, 'work');
  outside = join(base, 'outside');
  mkdirSync(folder);
  mkdirSync(outside);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const at = (path: string) => join(folder, path);

describe.each<Anchor>(['descriptor', 'path'])('[workspace.5] a folder held by its %s', (anchor) => {
  let open: OpenFolder;
  beforeEach(async () => {
    open = await OpenFolder.open(folder, anchor);
  });
  afterEach(() => open.close());

  test('writes, links, makes, removes and changes permissions inside', async () => {
    await open.writeFile('file', 'content', 0o640);
    await open.writeLink('link', 'file');
    await open.makeFolder('sub');
    await open.setModeOf('file', 0o600);
    const sub = await open.openFolder('sub');
    await sub.writeFile('deep', Uint8Array.of(1, 2), 0o644);
    await sub.close();
    expect(readFileSync(at('link'), 'utf8')).toBe('content');
    expect(lstatSync(at('file')).mode & 0o777).toBe(0o600);
    expect([...readFileSync(at('sub/deep'))]).toEqual([1, 2]);
    await open.remove('link', 'link');
    await expect(open.remove('sub', 'folder')).rejects.toThrow('ENOTEMPTY');
    expect(await open.lstat('link')).toBeUndefined();
    expect(readdirSync(folder).sort()).toEqual(['file', 'sub']);
  });

  test('does not enter a link, nor change the permissions of what one leads to', async () => {
    writeFileSync(join(outside, 'file'), 'x', { mode: 0o640 });
    symlinkSync(outside, at('way'));
    symlinkSync(join(outside, 'file'), at('link'));
    await expect(open.openFolder('way')).rejects.toThrow();
    await expect(open.setModeOf('link', 0o777)).rejects.toMatchObject({
      code: anchor === 'descriptor' ? 'CONFLICT' : 'ELOOP',
    });
    const read = await readWholeFile({ folder: open, name: 'link' }, { keepBytes: () => true });
    expect(read).toBe('changing');
    await open.writeFile('link', 'mine', 0o600);
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('x');
    expect(lstatSync(join(outside, 'file')).mode & 0o777).toBe(0o640);
  });

  test('leaves nothing beside a file that could not be written', async () => {
    mkdirSync(at('folder'));
    await expect(open.writeFile('folder', 'x', 0o600)).rejects.toThrow();
    await expect(open.writeLink('folder', 'x')).rejects.toThrow();
    expect(readdirSync(folder)).toEqual(['folder']);
  });
});

describe('[workspace.5] a folder that is moved away while it is open', () => {
  test('is still the one that is written to', async () => {
    mkdirSync(at('a'));
    const open = await OpenFolder.open(folder, 'descriptor');
    const inner = await open.openFolder('a');
    renameSync(at('a'), at('b'));
    symlinkSync(outside, at('a'));
    await inner.writeFile('file', 'x', 0o600);
    await inner.close();
    await open.close();
    expect(readdirSync(outside)).toEqual([]);
    expect(readdirSync(at('b'))).toEqual(['file']);
  });

  test('is noticed where there are no descriptors to go by', async () => {
    mkdirSync(at('a/b'), { recursive: true });
    mkdirSync(join(outside, 'b'));
    const open = await OpenFolder.open(folder, 'path');
    const inner = await open.openFolder('a');
    renameSync(at('a'), join(base, 'moved'));
    symlinkSync(outside, at('a'));
    await expect(inner.openFolder('b')).rejects.toMatchObject({ code: 'CONFLICT' });
    await inner.close();
    await open.close();
  });
});

describe('[workspace.5] someone who keeps swapping a folder for a link', () => {
  const SWAPPER = `
    const { renameSync, symlinkSync, unlinkSync } = require('node:fs');
    const [, folder, outside, aside] = process.argv;
    for (let turn = 0; ; turn++) {
      try { renameSync(folder, aside + turn); symlinkSync(outside, folder); } catch {}
      for (const start = performance.now(); performance.now() - start < (turn % 5) * 0.3; );
      try { unlinkSync(folder); } catch {}
      try { renameSync(aside + turn, folder); } catch {}
      for (const start = performance.now(); performance.now() - start < (turn % 3) * 0.3; );
    }`;
  let swapper: ChildProcess;
  beforeEach(() => {
    mkdirSync(at('a/b'), { recursive: true });
    for (const path of ['a/file', 'a/b/file']) writeFileSync(at(path), 'captured');
    mkdirSync(join(outside, 'b'));
    for (const path of ['file', 'b/file', 'secret', 'b/secret']) writeFileSync(join(outside, path), 'outside');
  });
  afterEach(() => {
    swapper.kill('SIGKILL');
  });

  function startSwapping(): void {
    swapper = spawn(process.execPath, ['-e', SWAPPER, at('a'), outside, join(base, 'aside')], { stdio: 'inherit' });
  }

  function outsideListing(): string[] {
    const names = readdirSync(outside, { recursive: true, encoding: 'utf8' }).sort();
    return names.map((name) => {
      const { mode, mtimeNs, ctimeNs, ino } = lstatSync(join(outside, name), { bigint: true });
      return [name, mode, mtimeNs, ctimeNs, ino].join(' ');
    });
  }

  test('gets nothing written, deleted or captured outside', async () => {
    const state = await captureWorkspace(folder);
    const before = outsideListing();
    startSwapping();
    const counts = { written: 0, refused: 0, captured: 0, swapped: 0 };
    while (counts.written <= 50 || counts.captured <= 50 || counts.swapped <= 5) {
      try {
        const plan = await planRestore(wanting(state), folder);
        const { done } = await applyRestore(plan, { force: true });
        counts.written += done.length;
      } catch {
        counts.refused++;
      }
      const captured = await captureWorkspace(folder);
      counts.captured += Object.keys(captured.entries).length;
      if (captured.entries.a?.kind !== 'folder') counts.swapped++;
      expect(JSON.stringify(captured)).not.toContain('"content":"outside"');
    }
    expect(outsideListing()).toEqual(before);
  });

  /** The same files with other permissions each time, so that there is always something to write, and to delete. */
  let round = 0;
  function wanting({ entries, ...rest }: WorkspaceState): WorkspaceState {
    const mode = round++ % 2 === 0 ? 0o600 : 0o640;
    const changed = Object.entries(entries)
      .filter(([path]) => path !== 'a/b/file' || mode === 0o640)
      .map(([path, entry]) => [path, entry.kind === 'file' ? { ...entry, mode } : entry]);
    return { ...rest, entries: Object.fromEntries(changed) };
  }
});

describe('without the rights of the system', () => {
  const NOBODY = 65534;
  const isRoot = process.getuid?.() === 0;

  async function asNobody<Value>(work: () => Promise<Value>): Promise<Value> {
    for (const path of [base, folder, ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(at)])
      chownSync(path, NOBODY, NOBODY);
    process.seteuid?.(NOBODY);
    try {
      return await work();
    } finally {
      process.seteuid?.(0);
    }
  }

  test.runIf(isRoot)(
    '[workspace.6] folders that do not let themselves be changed are restored all the same',
    async () => {
      mkdirSync(at('locked/inner'), { recursive: true });
      writeFileSync(at('locked/inner/file'), 'old');
      writeFileSync(at('locked/gone'), 'gone');
      chmodSync(at('locked/inner'), 0o555);
      chmodSync(at('locked'), 0o555);
      const state = await captureWorkspace(folder);
      writeFileSync(at('locked/inner/file'), 'new');
      unlinkSync(at('locked/gone'));
      const report = await asNobody(async () => applyRestore(await planRestore(state, folder)));
      expect(report).toMatchObject({ status: 'complete', failed: [] });
      expect(await captureWorkspace(folder)).toEqual(state);
    },
  );

  test.runIf(isRoot)('[workspace.1] what cannot be read is listed, and [workspace.7] left alone', async () => {
    writeFileSync(at('closed'), 'x', { mode: 0o000 });
    mkdirSync(at('dark'), { mode: 0o000 });
    writeFileSync(at('open'), 'x');
    const { state, report } = await asNobody(async () => {
      const captured = await captureWorkspace(folder);
      process.seteuid?.(0);
      unlinkSync(at('open'));
      process.seteuid?.(NOBODY);
      return { state: captured, report: await applyRestore(await planRestore(captured, folder)) };
    });
    expect(state.skipped).toEqual([
      { path: 'closed', reason: 'unreadable' },
      { path: 'dark', reason: 'unreadable' },
    ]);
    expect(report).toMatchObject({ done: [{ path: 'open' }], failed: [] });
    expect(readdirSync(folder).sort()).toEqual(['closed', 'dark', 'open']);
  });

  test.runIf(isRoot)('[workspace.6] a file that cannot be replaced is reported', async () => {
    mkdirSync(at('theirs'));
    for (const path of ['theirs/file', 'mine']) writeFileSync(at(path), 'captured');
    const state = await captureWorkspace(folder);
    for (const path of ['theirs/file', 'mine']) writeFileSync(at(path), 'changed');
    const report = await asNobody(async () => {
      process.seteuid?.(0);
      chownSync(at('theirs'), 0, 0);
      chmodSync(at('theirs'), 0o755);
      process.seteuid?.(NOBODY);
      return applyRestore(await planRestore(state, folder));
    });
    expect(report.status).toBe('partial');
    expect(report.failed).toMatchObject([{ path: 'theirs/file', problem: expect.stringContaining('EACCES') }]);
    expect(readFileSync(at('mine'), 'utf8')).toBe('captured');
  });
});
