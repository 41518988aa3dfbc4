import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { encrypted } from '../../storage/encryption/encrypted.ts';
import { Keyring } from '../../storage/encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { backup } from '../backup/backup.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { WHOLE } from '../engine/import-claim.ts';
import { replaceSession } from './replace-session.ts';
import { type Rewriting, rewriteSession } from './rewrite-session.ts';

const VICTIM = 'ann/chat' as SessionId;
const STATE = { n: 5, said: 'private words' };

/** Two sessions of five checkpoints; of the first #3 is pinned, and the head tagged. */
async function fill(storage: ChunkStorage): Promise<void> {
  const manager = new CheckpointManager({ storage });
  const session = await manager.session(VICTIM);
  for (let n = 1; n <= STATE.n; n++) {
    const id = await session.save({ ...STATE, n }, { userId: 'ann' });
    if (n === 3) await manager.pin(id);
  }
  await session.tag('keep');
  const other = await manager.session('other');
  for (let n = 1; n <= 5; n++) await other.save({ n }, { userId: 'bob' });
}

const AS_IT_IS: Rewriting = { ofState: (state) => state, ofOther: (value) => value };
const REDACTED: Rewriting = { ...AS_IT_IS, ofState: (state) => ({ ...(state as object), said: '[redacted]' }) };

/** Replaces the first session, as `redact` does; `after` is called when the old one was deleted. */
async function replace(
  storage: ChunkStorage,
  after: () => unknown = () => undefined,
  rewriting = AS_IT_IS,
): Promise<void> {
  const watched = new Proxy(storage, {
    get: (inner, key) => {
      const value: unknown = Reflect.get(inner, key);
      if (typeof value !== 'function') return value;
      return async (...given: unknown[]) => {
        const result: unknown = await value.apply(inner, given);
        if (key === 'deleteSession' && given[0] === VICTIM) await after();
        return result;
      };
    },
  });
  const { engine } = new CheckpointManager({ storage: watched });
  const refs = await storage.readRefs({ sessionId: VICTIM });
  const lines = rewriteSession(new CheckpointManager({ storage }).exportSession(VICTIM), rewriting);
  await replaceSession(engine, { sessionId: VICTIM, refs, lines });
}

/** What a process leaves that is killed right after it deleted the session. */
async function killReplacement(storage: ChunkStorage): Promise<ChunkStorage> {
  const kill = () => {
    throw new Error('killed');
  };
  await expect(replace(storage, kill)).rejects.toThrow('killed');
  expect(await storage.readRefs({ sessionId: VICTIM })).toEqual([]);
  expect(await storage.readRefs(WHOLE)).toHaveLength(1);
  return storage;
}

async function filledAndKilled(storage: ChunkStorage): Promise<ChunkStorage> {
  await fill(storage);
  return killReplacement(storage);
}

describeOn(STORAGES)('a session that is open while it is replaced, on %s', (_kind, create) => {
  test.each(['error', 'branch'] as const)(
    '[save.3] saves nothing on what it was (%s), and goes on when opened again',
    async (onConflict) => {
      const { storage } = create();
      await fill(storage);
      const manager = new CheckpointManager({ storage });
      const session = await manager.session(VICTIM, { onConflict });
      await replace(storage, undefined, REDACTED);
      for (let n = 6; n < 8; n++)
        await expect(session.save({ ...STATE, n })).rejects.toMatchObject({
          code: 'CONFLICT',
          message: expect.stringContaining('was rewritten meanwhile'),
        });
      const again = await manager.session(VICTIM);
      expect(again.state).toEqual({ ...STATE, said: '[redacted]' });
      await again.save({ ...STATE, n: 6 });
      expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 11 });
      await manager.close();
    },
  );

  test('[save.3] is not begun anew while the old one is gone and the new one is not there yet', async () => {
    const { storage } = create();
    await fill(storage);
    const manager = new CheckpointManager({ storage });
    const session = await manager.session(VICTIM);
    const save = () => expect(session.save({ ...STATE, n: 6 })).rejects.toMatchObject({ code: 'CONFLICT' });
    await replace(storage, async () => [await save(), await save()], REDACTED);
    await save();
    expect((await manager.session(VICTIM)).state).toEqual({ ...STATE, said: '[redacted]' });
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 10, sessions: 2 });
    await manager.close();
  });
});

describeOn(STORAGES)('a session that was replaced by another one, on %s', (_kind, create) => {
  test('[backup.2] is not taken for the one in a backup, which is told and stays', async () => {
    const { storage } = create();
    const target = new InMemoryCheckpointStorage();
    await fill(storage);
    await backup(storage, target);
    await replace(storage, undefined, REDACTED);
    for (const mirror of [false, true]) {
      const report = await backup(storage, target, { mirror });
      expect(report).toMatchObject({ status: 'partial', checkpoints: 0, deletedSessions: [] });
      expect(report.sessions).toMatchObject([
        { sessionId: VICTIM, problem: expect.stringContaining('was rewritten (redact) in one of the two storages') },
        { sessionId: 'other', present: 5 },
      ]);
      const manager = new CheckpointManager({ storage });
      await (await manager.session(VICTIM)).save({ n: 6 });
      expect(await new CheckpointManager({ storage: target }).verify()).toMatchObject({ status: 'clean' });
    }
    await replace(target, undefined, REDACTED);
    expect(await backup(storage, target)).toMatchObject({ status: 'complete', checkpoints: 2 });
    expect(await new CheckpointManager({ storage: target }).verify()).toMatchObject({ status: 'clean' });
    await storage.close();
  });
});

describeOn(STORAGES)('a session whose replacement was killed, on %s', (_kind, create) => {
  test('[retention.9] is left alone by the limits of a program that does not know it, and counts for nothing', async () => {
    const storage = await filledAndKilled(create().storage);
    const manager = new CheckpointManager({ storage, retention: { maxCheckpoints: 2 } });
    const other = await manager.session('other');
    for (let n = 0; n < 10; n++) await other.save({ n });
    expect((await manager.list({})).checkpoints).toHaveLength(2);
    const session = await manager.session(VICTIM);
    expect(session.state).toEqual(STATE);
    expect(await session.load('keep')).toEqual(STATE);
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
  });

  test('[retention.1] is brought in before it is pruned: what is tagged or pinned stays', async () => {
    const storage = await filledAndKilled(create().storage);
    const manager = new CheckpointManager({ storage });
    await manager.prune({ policy: { maxCheckpoints: 1, keepLast: 1 } });
    const { checkpoints } = await manager.list({ sessionId: VICTIM });
    expect(checkpoints.map(({ sequence }) => sequence)).toEqual([5, 3]);
    expect((await manager.session(VICTIM)).state).toEqual(STATE);
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
  });

  test('[retention.15] is forgotten with its user', async () => {
    const storage = await filledAndKilled(create().storage);
    const manager = new CheckpointManager({ storage });
    const forgotten = { checkpoints: 5, sessions: [VICTIM], memories: 0, left: [] };
    expect(await manager.forgetUser('ann', { dryRun: true })).toEqual(forgotten);
    expect(await manager.forgetUser('ann')).toMatchObject(forgotten);
    expect((await manager.session(VICTIM)).isResumed).toBe(false);
    expect(await storage.listSessions({ limit: 10 })).toEqual(['other']);
    await manager.close();
  });

  test('[backup.1] is in a backup, and stays in one that mirrors', async () => {
    const { storage } = create();
    const target = new InMemoryCheckpointStorage();
    await fill(storage);
    await backup(storage, target);
    await killReplacement(storage);
    expect(await backup(storage, target, { mirror: true })).toMatchObject({
      status: 'complete',
      deletedSessions: [],
      sessions: [{ sessionId: VICTIM }, { sessionId: 'other' }],
    });
    await killReplacement(storage);
    const fresh = new InMemoryCheckpointStorage();
    expect(await backup(storage, fresh)).toMatchObject({ status: 'complete', checkpoints: 10 });
    expect((await new CheckpointManager({ storage: fresh }).session(VICTIM)).state).toEqual(STATE);
    await storage.close();
  });

  test('[backup.1] is reported where keys are needed to bring it in, and nothing of the backup is deleted', async () => {
    const { storage } = create();
    const sealed = encrypted(storage, { keys: Keyring.create() });
    const target = new InMemoryCheckpointStorage();
    await fill(sealed);
    await backup(storage, target);
    await killReplacement(sealed);
    const report = await backup(storage, target, { mirror: true });
    expect(report).toMatchObject({ status: 'partial', deletedSessions: [] });
    expect(report.sessions.flatMap(({ problem = [] }) => problem)).toEqual([
      expect.stringContaining('a "redact" was killed'),
    ]);
    expect((await target.stats()).sessions).toBe(2);
    expect((await new CheckpointManager({ storage: sealed }).session(VICTIM)).state).toEqual(STATE);
    expect(await backup(storage, target, { mirror: true })).toMatchObject({ status: 'complete', deletedSessions: [] });
    await storage.close();
  });

  test('[encryption.5] is under the key of the session, before and after it was brought in', async () => {
    const { storage } = create();
    let ring = Keyring.create();
    const add = async (name: string) => (ring = ring.add(name));
    const keyOf = (id: string) => id.split('/')[0] ?? id;
    const open = (keyFor = keyOf) => encrypted(storage, { keys: { read: async () => ring, add }, keyFor });
    await fill(open());
    const names = () => ring.list().map(({ name }) => name);
    const before = names();
    await replace(open(() => 'another'));
    await killReplacement(open(() => 'another'));
    expect(names()).toEqual(before);
    ring = ring.remove('ann');
    const manager = new CheckpointManager({ storage: open() });
    await expect(manager.session(VICTIM)).rejects.toMatchObject({ code: 'KEY', details: { reason: 'removed' } });
    await manager.prune();
    expect((await manager.session('other')).state).toEqual({ n: 5 });
    expect(await manager.deleteSession(VICTIM)).toBe(true);
    expect(await manager.engine.storage.listSessions({ limit: 10 })).toEqual(['other']);
    await manager.close();
  });
});
