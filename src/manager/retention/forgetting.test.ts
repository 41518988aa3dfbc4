import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { StorageError } from '../../core/errors.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

/** The lines of a session that is then deleted. */
async function movedOut(manager: CheckpointManager, sessionId: string): Promise<Readable> {
  const lines: string[] = [];
  for await (const line of manager.exportSession(sessionId)) lines.push(line);
  await manager.deleteSession(sessionId);
  return Readable.from(lines);
}

describe.each(STORAGES)('%s', (_name, create) => {
  test('[retention.15] forgetting a user tells what that freed', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const messages = Array.from({ length: 50 }, (_, at) => `message ${at} of ann `.repeat(20));
    await manager.save({ messages }, { sessionId: 'ann', userId: 'ann' });
    const { collected } = await manager.forgetUser('ann');
    expect(collected?.chunks).toBeGreaterThan(0);
    expect(collected?.bytes).toBeGreaterThan(0);
    expect(await manager.gc()).toMatchObject({ chunks: 0, bytes: 0 });
    await manager.close();
  });

  test('[retention.15] forgetting a user names what others saved after the user, and recorded steps', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const shared = await manager.session('shared');
    await shared.save({ messages: [] }, { userId: 'bob' });
    await shared.save({ messages: ['of ann'] }, { userId: 'ann' });
    await shared.step('reply', () => 'a reply to ann');
    const after = await shared.save({ messages: ['of ann', 'of bob'] }, { userId: 'bob' });
    await shared.step('reply', () => 'a reply to bob, who quotes ann');
    const last = await shared.save({ messages: ['of ann', 'of bob', 'more'] });
    const left = [{ sessionId: 'shared', checkpoints: [after, last], steps: 1 }];
    const forgotten = { checkpoints: 1, sessions: ['shared'], memories: 0, left };
    expect(await manager.forgetUser('ann', { dryRun: true })).toEqual(forgotten);
    expect(await manager.forgetUser('ann')).toMatchObject(forgotten);
    expect(await manager.forgetUser('ann')).toEqual({ checkpoints: 0, sessions: [], memories: 0, left: [] });
    await expect(manager.forgetUser('ann', { dryrun: true } as never)).rejects.toThrow('dryRun');
    await manager.close();
  });

  test('[retention.15] the steps of a user go, and nobody is given what they returned', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const shared = await manager.session('shared', { initial: { t: ['bob'] } });
    await shared.step('ask', () => 'of bob');
    await shared.save({ t: ['bob'] }, { userId: 'bob' });
    await shared.step('ask', () => 'ELM before'); // its outcome is in what the user saved
    await shared.step('refuse', () => Promise.reject(new Error('ELM'))).catch(() => undefined);
    await shared.save({ t: ['bob', 'ELM'] }, { userId: 'ann' });
    await shared.close();
    await manager.fork({ sessionId: 'shared', at: '@~1' }, { branch: 'copy' });
    const copy = await manager.session('shared', { branch: 'copy', mode: 'recorded' });
    expect(await copy.step('ask', () => 'not run')).toBe('ELM before');
    await copy.close();
    const other = await manager.session('shared', { branch: 'main' });
    await other.step('ask', () => 'ELM after'); // before anything else is saved
    await other.step('fail', () => Promise.reject(new Error('ELM'))).catch(() => undefined);
    await other.close();
    expect(await manager.clearUserHistory('ann')).toBe(1);
    await manager.gc();
    for (const branch of ['main', 'copy']) {
      const session = await manager.session('shared', { branch });
      expect(session.state).toEqual({ t: ['bob'] });
      expect(await session.step('ask', () => 'fresh')).toBe('fresh');
      await session.close();
    }
    const lines: string[] = [];
    for await (const line of manager.exportSession('shared')) lines.push(String(line));
    expect(lines.join()).toContain('of bob');
    expect(lines.join()).not.toContain('ELM');
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[retention.15] where nothing of the current branch stays, what others saved last is current', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const main = await manager.session('shared');
    await main.save({ of: 'ann' }, { userId: 'ann' });
    for (const [branch, userId] of [
      ['older', 'bob'],
      ['newer', 'bob'],
      ['gone', 'ann'],
    ] as const) {
      const fork = await main.fork({ branch });
      await fork.save({ of: branch }, { userId });
      await fork.close();
    }
    await main.close();
    expect(await manager.clearUserHistory('ann')).toBe(2);
    expect(await manager.currentBranch('shared')).toBe('newer');
    expect((await manager.session('shared')).state).toEqual({ of: 'newer' });
    await manager.importSession(await movedOut(manager, 'shared'));
    expect(await manager.currentBranch('shared')).toBe('newer');
    await manager.close();
  });

  test('[retention.15] a branch is set back to what is there, also if others prune meanwhile', async () => {
    const { storage } = create();
    const pruner = new CheckpointManager({ storage });
    let isWatched = false;
    const delay = (method: string): Promise<void> | undefined => {
      if (!isWatched || method !== 'commit') return undefined;
      isWatched = false;
      return pruner.prune({ policy: { keepLast: 1 } }).then(() => undefined);
    };
    const manager = new CheckpointManager({ storage: faultyStorage(storage, { delay }) });
    const session = await manager.session('shared');
    const kept = await session.save({ n: 1 }, { userId: 'bob' });
    await session.tag('kept');
    await session.save({ n: 2 }, { userId: 'bob' });
    await session.save({ n: 3 }, { userId: 'ann' });
    await session.close();
    isWatched = true;
    expect(await manager.clearUserHistory('ann')).toBe(1);
    expect(isWatched).toBe(false);
    expect(await manager.branches('shared')).toEqual([{ sessionId: 'shared', branch: 'main', headId: kept }]);
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[storage.15] a session that could not be deleted, whichever call failed, is there', async () => {
    const { storage } = create();
    let failing = 0;
    const delay = (method: string, nth: number) =>
      method === 'deleteSession' && nth === failing ? Promise.reject(new StorageError('Refused.')) : undefined;
    const manager = new CheckpointManager({ storage: faultyStorage(storage, { delay }) });
    await (await manager.session('one')).save({ n: 1 });
    for (const nth of [1, 2]) {
      failing = nth === 1 ? 1 : 3; // the first call of the first try, the second of the second
      await expect(manager.deleteSession('one')).rejects.toThrow('Refused.');
      expect(await storage.listSessions({ limit: 10 })).toEqual(['one']);
    }
    failing = 0;
    expect(await manager.deleteSession('one')).toBe(true);
    await manager.close();
  });
});
