import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { backup } from '../backup/backup.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';
import { importSession } from './import.ts';

const COUNT = 6;

/** A session with a tag and a pin on older checkpoints; every second one is another user's. */
async function exported(): Promise<string[]> {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('imported');
  for (let n = 1; n <= COUNT; n++) {
    const id = await session.save({ n }, { type: 'routine', agentId: 'agent', userId: n % 2 === 0 ? 'ann' : 'bob' });
    if (n === 2) await manager.pin(id);
    if (n === 3) await session.tag('v1');
  }
  const lines: string[] = [];
  for await (const line of manager.exportSession('imported')) lines.push(line);
  return lines;
}

/** Imports; `beside` runs when so many checkpoints are stored, the last of them at the end. */
async function importBeside(storage: ChunkStorage, after: number, beside: () => Promise<unknown>) {
  const lines = await exported();
  let stored = 0;
  const watched = new Proxy(storage, {
    get: (inner, key) => {
      const value: unknown = Reflect.get(inner, key);
      if (typeof value !== 'function') return value;
      return async (...given: Parameters<ChunkStorage['commit']>) => {
        const result: unknown = await value.apply(inner, given);
        const isRecord = key === 'commit' && given[0].checkpoint !== undefined;
        if (isRecord && ++stored === after) await beside();
        return result;
      };
    },
  });
  const { engine } = new CheckpointManager({ storage: watched });
  return importSession(
    engine,
    (async function* () {
      yield* lines;
    })(),
  );
}

type Beside = { readonly manager: CheckpointManager; readonly session: Session<unknown> };

/** What another process does to checkpoints that it did not save. */
const RETENTION: readonly [name: string, retention: object, act: (beside: Beside) => Promise<unknown>][] = [
  ['prune by rule', {}, ({ manager }) => manager.prune({ policy: { keepLast: 1, types: {} } })],
  ['prune by count', {}, ({ manager }) => manager.prune({ policy: { maxCheckpoints: 1 } })],
  ['maxCheckpoints', { maxCheckpoints: 3 }, ({ session }) => saveOn(session)],
  ['maxCheckpointsPerUser', { maxCheckpointsPerUser: 2 }, ({ session }) => saveOn(session)],
  ['the rule of a type', { types: { routine: { keepLast: 3 } } }, ({ session }) => saveOn(session)],
];

async function saveOn(session: Session<unknown>): Promise<void> {
  for (let n = 0; n < 6; n++) await session.save({ n }, { type: 'routine', agentId: 'agent', userId: 'ann' });
}

describeOn(STORAGES)('an import on %s', (_kind, create) => {
  test.each(RETENTION)('[session.4] is whole beside another process: %s', async (_name, retention, act) => {
    for (const after of [COUNT - 2, COUNT]) {
      const { storage } = create();
      const manager = new CheckpointManager({ storage, retention });
      const session = await manager.session('own');
      await session.save({ own: true }, { userId: 'ann' });
      const seen: number[] = [];
      const imported = importBeside(storage, after, async () => {
        await act({ manager, session });
        seen.push((await manager.list({ sessionId: 'own' })).checkpoints.length);
      });
      expect(await imported).toMatchObject({ sessionId: 'imported', checkpoints: COUNT });
      expect(seen[0]).toBeGreaterThan(0);
      expect((await manager.list({ sessionId: 'imported' })).checkpoints).toHaveLength(COUNT);
      expect(await (await manager.session('imported')).load('v1')).toEqual({ n: 3 });
      expect(await manager.verify()).toMatchObject({ status: 'clean' });
      await manager.close();
    }
  });

  test('[session.4] is refused whole if a checkpoint of it was deleted meanwhile', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    await (await manager.session('own')).save({ own: true });
    for (const after of [COUNT - 2, COUNT]) {
      const importing = importBeside(storage, after, () => manager.forgetUser('ann'));
      await expect(importing).rejects.toMatchObject({ code: 'CONFLICT' });
      expect(await storage.listSessions({ limit: 10 })).toEqual(['own']);
    }
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 1, tombstones: 0 });
    await manager.close();
  });

  test('[backup.1] is not in a backup before it is done', async () => {
    const { storage } = create();
    const target = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    await (await manager.session('own')).save({ own: true });
    await importBeside(storage, 3, async () => {
      expect(await backup(storage, target)).toMatchObject({ status: 'complete', checkpoints: 1 });
    });
    expect(await target.listSessions({ limit: 10 })).toEqual(['own']);
    expect(await backup(storage, target)).toMatchObject({ status: 'complete', checkpoints: COUNT, present: 1 });
    await manager.close();
  });

  test('[backup.1] names what a copy brought and retention deleted there before its tag came', async () => {
    const { storage: target } = create();
    const source = new InMemoryCheckpointStorage();
    const from = new CheckpointManager({ storage: source });
    await from.importSession(Readable.from(await exported()));
    const there = new CheckpointManager({ storage: target });
    await (await there.session('own')).save({ own: true });
    let copied = 0;
    const onCheckpoint = async () => {
      if (++copied === COUNT) await there.delete((await from.tags('imported'))[0]?.checkpointId ?? '');
    };
    const report = await backup(source, target, { onCheckpoint });
    expect(report).toMatchObject({ status: 'partial' });
    expect(JSON.stringify(report)).toContain('The tag \\"v1\\" was not copied');
    expect(await there.verify()).toMatchObject({ status: 'clean' });
    await there.close();
  });

  test('[session.4] that was killed long ago leaves nothing after a prune', async () => {
    const { storage } = create();
    const sessionId = 'imported' as SessionId;
    const manager = new CheckpointManager({ storage, now: () => Date.now() + 2 * 3_600_000 });
    await (await manager.session('own')).save({ own: true });
    const stop = () => Promise.reject(new Error('killed'));
    const undo = storage.deleteSession;
    storage.deleteSession = stop; // it is killed before it can take anything back
    await expect(importBeside(storage, 3, stop)).rejects.toThrow('killed');
    storage.deleteSession = undo;
    expect(await storage.listCheckpoints({ sessionId, limit: 10 })).toHaveLength(3);
    await manager.prune({ dryRun: true });
    expect(await storage.listCheckpoints({ sessionId, limit: 10 })).toHaveLength(3);
    await manager.prune();
    expect(await storage.listSessions({ limit: 10 })).toEqual(['own']);
    await manager.close();
  });
});
