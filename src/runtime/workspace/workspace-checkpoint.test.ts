import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { LocalCodeExecutor } from '../code/local-code-executor.ts';
import { applyRestore } from './apply-restore.ts';
import { captureWorkspace } from './capture-workspace.ts';
import { planRestore } from './plan-restore.ts';
import { WorkspaceCache } from './workspace-cache.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'savestate-session-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

type State = { readonly round: number; readonly workspace: unknown };

async function openSession() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  return { manager, session: await manager.session('files') };
}

test('[workspace.6] the files of every checkpoint of a session come back, in any order', LATER, async () => {
  const { manager, session } = await openSession();
  const cache = new WorkspaceCache();
  const executor = new LocalCodeExecutor({ workDir: folder });
  const saved: { id: string; log: string; round: number }[] = [];
  for (let round = 0; round < 6; round++) {
    const code = `echo round ${round} >> log; mkdir -p d${round}; rm -rf d${round - 2}; cp log d${round}/copy`;
    expect((await executor.run({ language: 'sh', code })).failure).toBeUndefined();
    const workspace = await captureWorkspace(folder, { ignore: ['code-*'] }, { cache });
    const id = await session.save({ round, workspace });
    saved.push({ id, round, log: readFileSync(join(folder, 'log'), 'utf8') });
  }
  for (const { id, log, round } of [3, 0, 5, 1].flatMap((at) => saved.slice(at, at + 1))) {
    const { workspace } = (await manager.load(id)) as State;
    const report = await applyRestore(await planRestore(workspace, folder, { ignore: ['code-*'], cache }));
    expect(report).toMatchObject({ status: 'complete' });
    expect(readFileSync(join(folder, 'log'), 'utf8')).toBe(log);
    expect(readFileSync(join(folder, `d${round}/copy`), 'utf8')).toBe(log);
  }
});

test('[workspace.2] a secret in a file is not stored, and [workspace.7] the file is left alone and named', async () => {
  const { manager, session } = await openSession();
  const secret = `OPENAI_API_KEY=sk-proj-${'a1B2c3D4'.repeat(6)}\n`;
  mkdirSync(join(folder, 'conf'));
  writeFileSync(join(folder, 'conf/settings'), secret);
  writeFileSync(join(folder, 'plain'), 'plain');
  const id = await session.save({ round: 0, workspace: await captureWorkspace(folder) });
  const { workspace } = (await manager.load(id)) as State;
  expect(JSON.stringify(workspace)).not.toContain('a1B2c3D4');
  expect(await planRestore(workspace, folder)).toMatchObject({ changes: [], left: [] });
  rmSync(join(folder, 'conf'), { recursive: true });
  rmSync(join(folder, 'plain'));
  const report = await applyRestore(await planRestore(workspace, folder));
  expect(report).toMatchObject({ status: 'partial', left: [{ path: 'conf/settings', reason: 'content-redacted' }] });
  expect(readFileSync(join(folder, 'plain'), 'utf8')).toBe('plain');
});
