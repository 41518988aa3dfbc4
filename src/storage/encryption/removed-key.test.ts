import { join } from 'node:path';
import { expect, test } from 'vitest';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { CommitResult } from '../contract.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import { encrypted } from './encrypted.ts';
import { KeyFile } from './key-file.ts';

const REMOVED = { code: 'KEY', details: { reason: 'removed' } };

async function openPlace(below = new InMemoryCheckpointStorage()) {
  const keys = new KeyFile(join(temporaryFolder(SCRATCH_ROOT), 'keys'));
  await keys.create();
  const keyFor = (id: string) => id.split('/')[0] ?? '';
  const open = (file = keys) => new CheckpointManager({ storage: encrypted(below, { keys: file, keyFor }) });
  return { below, keys, open };
}

test('[encryption.4] a process stops reading and writing with a key when its removal resolves', async () => {
  const { keys, open } = await openPlace();
  const [manager, other] = [open(), open(new KeyFile(keys.path))];
  const id = await manager.save({ n: 1 }, { sessionId: 'u1/a' });
  await manager.save({ n: 1 }, { sessionId: 'u2/a' });
  const session = await manager.session('u1/a', { initial: { n: 0 } });
  const kept = await manager.session('u2/a', { initial: { n: 0 } });
  const steps = await other.session('u1/steps', { initial: {} });
  await steps.step('look', () => 'found');
  expect(await other.load(id)).toEqual({ n: 1 });
  await keys.update((ring) => ring.remove('u1'));
  for (const one of [manager, other]) {
    await expect(one.load(id)).rejects.toMatchObject(REMOVED);
    await expect(one.session('u1/a')).rejects.toMatchObject(REMOVED);
    expect((await one.list()).checkpoints.map(({ sessionId }) => sessionId)).toEqual(['u2/a']);
  }
  await expect(session.update(setTwo)).rejects.toMatchObject(REMOVED);
  await expect(session.step('more', () => 1)).rejects.toMatchObject(REMOVED);
  await expect(session.fork({ branch: 'b' })).rejects.toMatchObject(REMOVED);
  await expect(steps.step('again', () => 1)).rejects.toMatchObject(REMOVED);
  await expect(steps.save({})).rejects.toMatchObject(REMOVED);
  await kept.update(setTwo);
  expect((await open().session('u2/a')).state).toEqual({ n: 2 });
  // A new session of that name has a new key, as one of a new name.
  await manager.save({ n: 3 }, { sessionId: 'u1/new' });
  expect((await open(new KeyFile(keys.path)).session('u1/new')).state).toEqual({ n: 3 });
  await expect(session.update(setTwo)).rejects.toMatchObject(REMOVED);
  await expect(manager.load(id)).rejects.toMatchObject(REMOVED);
});

function setTwo(state: { n: number }): void {
  state.n = 2;
}

test('[encryption.4] nothing is acknowledged that is made of what an older, removed key protects', async () => {
  const { keys, open } = await openPlace();
  const text = Array.from({ length: 200 }, (_, n) => `line ${n} of a long text `.repeat(20));
  const before = await open().save({ text, n: 1 }, { sessionId: 'u1/a' });
  const [old] = (await keys.read()).list().filter(({ name }) => name === 'u1');
  await keys.update((ring) => ring.add('u1'));
  await open().save({ text, n: 2 }, { sessionId: 'u1/a' });
  await keys.update((ring) => ring.remove(old?.id ?? ''));
  const manager = open();
  for (const sessionId of ['u1/a', 'u1/b'])
    await expect(manager.save({ text, n: 3 }, { sessionId })).rejects.toMatchObject(REMOVED);
  const session = await manager.session('u1/c', { initial: { n: 3 } });
  await expect(session.step('read', () => text)).rejects.toMatchObject(REMOVED);
  const other = await manager.save({ n: 4, text: text.map((line) => line.toUpperCase()) }, { sessionId: 'u1/e' });
  expect(await open().load(other)).toMatchObject({ n: 4 });
  await expect(open().load(before)).rejects.toMatchObject(REMOVED);
  await manager.deleteSession('u1/a');
  await manager.gc();
  const after = await manager.save({ text, n: 5 }, { sessionId: 'u1/d' });
  expect(await open().load(after)).toEqual({ text, n: 5 });
});

/** Waits before a commit or a read of a checkpoint is returned. */
class SlowStorage extends InMemoryCheckpointStorage {
  gate: Promise<unknown> = Promise.resolve();
  onEntered: (() => void) | undefined;

  override async commit(commit: Parameters<InMemoryCheckpointStorage['commit']>[0]): Promise<CommitResult> {
    const result = await super.commit(commit);
    this.onEntered?.();
    await this.gate;
    return result;
  }

  override async readCheckpoint(id: CheckpointId) {
    const row = await super.readCheckpoint(id);
    this.onEntered?.();
    await this.gate;
    return row;
  }
}

test.each(['save', 'load'])('[encryption.4] a %s that is under way when the key goes is refused', async (what) => {
  const below = new SlowStorage();
  const { keys, open } = await openPlace(below);
  const manager = open();
  const id = await manager.save({ n: 1 }, { sessionId: 'u1/a' });
  let release: (() => void) | undefined;
  below.gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const entered = new Promise<void>((resolve) => {
    below.onEntered = resolve;
  });
  const reader = open();
  const working = what === 'save' ? manager.save({ n: 2 }, { sessionId: 'u1/a' }) : reader.load(id);
  const refused = expect(working).rejects.toMatchObject(REMOVED);
  await entered;
  await keys.update((ring) => ring.remove('u1'));
  release?.();
  await refused;
});

test('[encryption.4] what was forgotten is no damage, and is told as that', async () => {
  const { keys, open } = await openPlace();
  const manager = open();
  for (const n of [1, 2, 3]) await manager.save({ n, text: 'word '.repeat(9000) }, { sessionId: 'u1/a', userId: 'u1' });
  const session = await manager.session('u1/a', { initial: { n: 0 } });
  await session.step('look', () => 'found');
  await session.tag('good');
  await manager.save({ n: 1 }, { sessionId: 'u2/a', userId: 'u2' });
  expect(await manager.verify()).toMatchObject({ status: 'clean', forgotten: [] });
  await keys.update((ring) => ring.remove('u1'));
  const forgotten = [{ sessionId: 'u1/a', checkpoints: 3 }];
  for (const readData of [true, false])
    expect(await manager.verify({ readData })).toMatchObject({ status: 'forgotten', findings: [], forgotten });
  expect(await manager.forgetUser('u1')).toEqual({
    checkpoints: 0,
    sessions: [],
    memories: 0,
    left: [],
    unreadable: ['u1/a'],
  });
  expect(await manager.forgetUser('u2', { dryRun: true })).not.toHaveProperty('unreadable');
  await manager.deleteSession('u1/a');
  expect(await manager.forgetUser('u1')).not.toHaveProperty('unreadable');
  expect(await manager.verify()).toMatchObject({ status: 'clean', forgotten: [] });
});

test('[encryption.4] a session whose older key was removed is forgotten in part, and no damage', async () => {
  const { keys, open } = await openPlace();
  const manager = open();
  const big = 'word '.repeat(9000);
  const old = await manager.save({ n: 1, big }, { sessionId: 'u1/a' });
  const [key] = (await keys.read()).list().filter(({ name }) => name === 'u1');
  await keys.update((ring) => ring.add('u1'));
  await manager.save({ n: 2, big }, { sessionId: 'u1/a' }); // shares a chunk with the one before
  await manager.save({ n: 3 }, { sessionId: 'u1/a' });
  await manager.tag(old, 'first');
  await keys.update((ring) => ring.remove(key?.id ?? ''));
  const report = await manager.verify();
  expect(report).toMatchObject({ status: 'forgotten', findings: [], damagedCheckpoints: [] });
  expect(report.forgotten).toEqual([{ sessionId: 'u1/a', checkpoints: 2 }]);
});

test('[encryption.3] verify without the keys is refused as every look is', async () => {
  const { below, open } = await openPlace();
  await open().save({ n: 1 }, { sessionId: 'u1/a' });
  const verifying = new CheckpointManager({ storage: below }).verify();
  await expect(verifying).rejects.toMatchObject({ code: 'KEY', details: { reason: 'missing' } });
});
