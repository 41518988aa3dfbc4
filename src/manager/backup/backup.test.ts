import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES, temporaryFolder } from '../../../test/support/storages.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import { openDatabase } from '../../storage/database/sqlite-driver.ts';
import { encrypted } from '../../storage/encryption/encrypted.ts';
import { Keyring } from '../../storage/encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { formatTombstone, parseRow } from '../engine/records.ts';
import type { GroupState } from '../group/group-state.ts';
import { open } from '../open.ts';
import { Workers } from '../workers/workers.ts';
import { backup, restoreBackup } from './backup.ts';

const memory = () => new InMemoryCheckpointStorage();
const long = (word: string) => `${word} `.repeat(2_000);

/** A session with messages, a fork, a tag, a step, and one checkpoint that was deleted. */
async function fill(storage: ChunkStorage, sessionId = 'trip', count = 12) {
  const manager = new CheckpointManager({ storage });
  const session = await manager.session(sessionId, { initial: { messages: [] as string[] } });
  const ids = [];
  for (let n = 0; n < count; n++) {
    session.state.messages.push(long(`${sessionId} ${n}`));
    ids.push(await session.save());
    await session.step(`step ${n}`, () => long(`result ${n}`));
  }
  await manager.tag(ids[4] ?? '', 'before');
  await manager.fork(ids[5] ?? '', { branch: 'other' });
  await manager.delete(ids[2] ?? '');
  return { manager, session, ids };
}

/** All that a storage holds, in a form that can be compared. */
async function contentOf(storage: ChunkStorage) {
  const { checkpoints, tombstones, sessions } = await storage.stats();
  const exports: string[] = [];
  const manager = new CheckpointManager({ storage });
  for (const sessionId of await storage.listSessions({ limit: 100 }))
    for await (const line of manager.exportSession(sessionId)) exports.push(line);
  return { checkpoints, tombstones, sessions, exports };
}

/** Counts what is written to a storage, and can be cut off. */
function counted(storage: ChunkStorage, limit = Number.POSITIVE_INFINITY) {
  const seen = { commits: 0, chunks: 0, reads: 0 };
  const proxy = new Proxy(storage, {
    get: (inner, key) => {
      const value: unknown = Reflect.get(inner, key);
      if (typeof value !== 'function') return value;
      return async (...given: unknown[]) => {
        if (key === 'commit') {
          if (++seen.commits > limit) throw new Error('cut off');
          seen.chunks += (given[0] as Commit).chunks?.length ?? 0;
        }
        if (key === 'readChunks') seen.reads += (given[0] as readonly Digest[]).length;
        return Reflect.apply(value, inner, given) as unknown;
      };
    },
  });
  return { storage: proxy, seen };
}

describeOn(STORAGES)('from and to %s', (_, create) => {
  test('[backup.1] a backup and what is restored from it are what was backed up', async () => {
    const { storage: from } = create();
    const { storage: to } = create();
    const { storage: restored } = create();
    await fill(from);
    await fill(from, 'second');
    expect(await backup(from, to)).toMatchObject({ status: 'complete', checkpoints: 22, present: 0 });
    const content = await contentOf(from);
    expect(await contentOf(to)).toEqual(content);
    expect(await restoreBackup(to, restored)).toMatchObject({ status: 'complete', checkpoints: 22 });
    expect(await contentOf(restored)).toEqual(content);
    for (const storage of [from, to, restored]) await storage.close();
  });
});

test('[backup.1] a second backup reads and moves only what is new', async () => {
  const from = memory();
  const to = memory();
  const { session } = await fill(from);
  await backup(from, to);
  session.state.messages.push(long('new'));
  await session.save();
  await session.step('late', () => 'done');
  const source = counted(from);
  const target = counted(to);
  expect(await backup(source.storage, target.storage)).toMatchObject({ checkpoints: 1, present: 11 });
  expect(target.seen.chunks).toBeLessThan(6);
  expect(source.seen.reads).toBeLessThan(6);
  expect(await contentOf(to)).toEqual(await contentOf(from));
  expect(await backup(from, to)).toMatchObject({ checkpoints: 0, chunks: 0 });
});

test('[backup.1] a backup that is cut off at any commit goes on, and has no names of what it lacks', async () => {
  const from = memory();
  await fill(from, 'trip', 6);
  const whole = counted(memory());
  await backup(from, whole.storage);
  for (let limit = 0; limit < whole.seen.commits; limit++) {
    const to = memory();
    await expect(backup(from, counted(to, limit).storage)).rejects.toThrow('cut off');
    const { findings } = await new CheckpointManager({ storage: to }).verify();
    expect(findings).toEqual(
      limit > 0 ? [{ subject: 'session "trip"', problem: expect.stringContaining('was cut off') }] : [],
    );
    if (limit > 0 && limit < whole.seen.commits - 1)
      expect(await restoreBackup(to, memory())).toMatchObject({
        status: 'partial',
        sessions: [{ sessionId: 'trip', problem: expect.stringContaining('cut off') }],
      });
    expect(await backup(from, to)).toMatchObject({ status: 'complete' });
    expect(await contentOf(to)).toEqual(await contentOf(from));
  }
});

test('[backup.1] what is saved, pruned and collected meanwhile leaves a backup of one moment', async () => {
  const from = memory();
  const { manager, session } = await fill(from);
  await fill(from, 'a-second');
  let calls = 0;
  const busy = faultyStorage(from, {
    delay: async (method) => {
      if ((method !== 'readChunks' && method !== 'readRefs') || ++calls % 3 !== 0 || calls > 60) return;
      session.state.messages.push(long(`meanwhile ${calls}`));
      await session.save();
      await manager.prune({ policy: { keepLast: 3 } });
      await manager.gc();
    },
  });
  const to = memory();
  expect(await backup(busy, to)).toMatchObject({ status: 'complete' });
  expect(calls).toBeGreaterThan(20);
  const there = new CheckpointManager({ storage: to });
  expect((await there.verify()).findings).toEqual([]);
  for (const { id, sessionId, branch } of (await there.list({}, { limit: 1_000 })).checkpoints) {
    const head = (await there.branches(sessionId)).find((each) => each.branch === branch)?.headId;
    expect(head === undefined || id <= head, `${id} is not after the head ${head}`).toBe(true);
  }
});

test('[backup.1] a group that is saved while its members are backed up is there whole', async () => {
  const from = memory();
  const manager = new CheckpointManager({ storage: from });
  const member = await manager.session('a-member', { initial: { n: 0 } });
  const other = await manager.session('b-member', { initial: { n: 0 } });
  const save = () => {
    member.state.n++;
    const members = [member, other].map((session) => ({ name: session.id, session, state: { ...session.state } }));
    return new Workers(manager).saveGroup(members, { groupId: 'z-group' });
  };
  await save();
  const busy = faultyStorage(from, {
    delay: async (method, nth) => void (method === 'readCheckpoint' && nth < 9 && (await save())),
  });
  const to = memory();
  expect(await backup(busy, to)).toMatchObject({ status: 'complete', present: 0 });
  const there = new CheckpointManager({ storage: to });
  for (const { id } of (await there.list({ sessionId: 'z-group' }, { limit: 100 })).checkpoints)
    for (const { checkpointId } of ((await there.load(id)) as GroupState).members)
      expect(await there.get(checkpointId), `a member of ${id}`).toBeDefined();
});

test('[backup.1] what others prune and collect in the target meanwhile is moved again where it is needed', async () => {
  const from = memory();
  await fill(from);
  const inner = memory();
  const to = faultyStorage(inner, {
    delay: async (method, nth) => {
      if (method !== 'commit' || (nth !== 6 && nth !== 9)) return;
      const rows = await inner.listCheckpoints({ limit: 100 });
      await inner.deleteCheckpoints(
        rows.map((row) => ({ id: row.id, body: formatTombstone(parseRow(row), 0, 'pruned') })),
      );
      await inner.collect();
    },
  });
  const report = await backup(from, to);
  expect(report).toMatchObject({ status: 'partial', checkpoints: 11 });
  expect(JSON.stringify(report.sessions)).toContain('was deleted there meanwhile'); // a name has nothing to point at
  const there = new CheckpointManager({ storage: inner });
  expect((await there.verify()).findings).toEqual([]);
  expect((await inner.stats()).tombstones).toBeGreaterThan(5);
});

test('[backup.2] what is damaged in the source is named, and the rest is copied', async () => {
  const from = memory();
  const { ids } = await fill(from);
  const digest = (await from.readCheckpoint(ids[8] as never))?.root?.refs.at(-1) as Digest;
  const damaged = faultyStorage(from, { chunks: { [digest]: 'altered' } });
  const to = memory();
  const report = await backup(damaged, to);
  expect(report.status).toBe('partial');
  expect(report.sessions[0]).toMatchObject({ sessionId: 'trip', problem: expect.stringContaining(digest) });
  expect(report.checkpoints).toBeGreaterThan(5);
  expect(await backup(from, to)).toMatchObject({ status: 'complete' });
  expect(await contentOf(to)).toEqual(await contentOf(from));
});

test('[backup.2] a chunk that is not read back from the target as it was is named', async () => {
  const from = memory();
  const { ids } = await fill(from);
  const [digest] = (await from.readCheckpoint(ids[0] as never))?.root?.refs ?? [];
  const to = faultyStorage(memory(), { chunks: { [digest as Digest]: 'altered' } });
  const { sessions } = await backup(from, to);
  expect(sessions[0]?.problem).toContain(digest);
});

test('[backup.2] an encrypted storage is backed up without its keys, and opens with them', async () => {
  const keys = Keyring.create();
  const inner = memory();
  await fill(encrypted(inner, { keys }));
  const to = memory();
  const restored = memory();
  expect(await backup(inner, to)).toMatchObject({ status: 'complete', checkpoints: 11 });
  expect(await restoreBackup(to, restored)).toMatchObject({ status: 'complete' });
  const opened = encrypted(restored, { keys });
  expect(await contentOf(opened)).toEqual(await contentOf(encrypted(inner, { keys })));
  expect((await new CheckpointManager({ storage: opened }).verify()).status).toBe('clean');
  await expect(backup(encrypted(inner, { keys }), memory())).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const plain = memory();
  await fill(plain);
  await expect(backup(plain, to)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

test('[backup.2] what was deleted stays in the backup, or goes with mirror', async () => {
  const from = memory();
  const { manager, ids } = await fill(from);
  await fill(from, 'second');
  const kept = memory();
  const mirrored = memory();
  await backup(from, kept);
  await backup(from, mirrored);
  await manager.delete(ids[7] ?? '');
  await manager.deleteSession('second');
  await manager.untag('trip', 'before');
  expect(await backup(from, kept)).toMatchObject({ deleted: 0, deletedSessions: [] });
  expect((await kept.stats()).checkpoints).toBe(22);
  expect(await backup(from, mirrored, { mirror: true })).toMatchObject({ deleted: 1, deletedSessions: ['second'] });
  expect(await contentOf(mirrored)).toEqual(await contentOf(from));
});

test('[backup.2] a target that is the storage itself, by a link or another name, is refused', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'agent.db');
  await (await open(`sqlite:${path}`)).close();
  symlinkSync(path, join(folder, 'link.db'));
  symlinkSync(folder, join(folder, 'here'));
  for (const target of ['link.db', 'here/agent.db'])
    await expect(backup(path, join(folder, target))).rejects.toThrow('The two storages are the same one.');
});

test('[backup.2] a target that is of another storage is not changed', async () => {
  const from = memory();
  const to = memory();
  await fill(from);
  await fill(to);
  await fill(to, 'theirs');
  const before = await contentOf(to);
  expect(await backup(from, to, { mirror: true })).toMatchObject({
    status: 'partial',
    deletedSessions: [],
    sessions: [{ sessionId: 'trip', problem: expect.stringContaining('went on by itself') }],
  });
  expect(await contentOf(to)).toEqual(before);
  const foreign = memory();
  await fill(foreign, 'elsewhere');
  await expect(backup(from, foreign, { mirror: true })).rejects.toMatchObject({ code: 'CONFLICT' });
  await expect(restoreBackup(from, foreign)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(backup(from, from)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(backup(from, to, { miror: true } as never)).rejects.toThrow('mirror');
});

const LOST = {
  'the root of a state': 'UPDATE checkpoint SET root_refs=NULL, root_text=NULL WHERE n=1',
  'a checkpoint that others were saved on': 'DELETE FROM checkpoint WHERE n=1',
  'a head': 'DELETE FROM checkpoint WHERE n=(SELECT max(n) FROM checkpoint)',
};

describe.each(Object.entries(LOST))('without %s', (_, sql) => {
  test.each(['plain', 'sealed'])(
    '[backup.2] a backup of a %s storage is partial, and mirrors no loss',
    async (kind) => {
      const path = join(temporaryFolder(), 'lost.db');
      const inner = new SqliteCheckpointStorage({ path });
      const keys = Keyring.create();
      const wrap = (storage: ChunkStorage) => (kind === 'sealed' ? encrypted(storage, { keys }) : storage);
      const manager = new CheckpointManager({ storage: wrap(inner) });
      for (const n of [1, 2, 3]) await manager.save({ n }, { sessionId: 'trip' });
      await manager.save({ n: 4 }, { sessionId: 'whole' });
      const to = memory();
      expect(await backup(inner, to)).toMatchObject({ status: 'complete', checkpoints: 4 });
      await manager.close();
      const db = openDatabase(path);
      db.exec(sql.replace('checkpoint)', 'checkpoint WHERE session=1)'));
      db.close();
      const damaged = new SqliteCheckpointStorage({ path });
      const fresh = memory();
      expect(await backup(damaged, fresh)).toMatchObject({
        status: 'partial',
        sessions: expect.arrayContaining([expect.objectContaining({ problem: expect.stringMatching(/missing/) })]),
      });
      expect((await new CheckpointManager({ storage: wrap(fresh) }).list()).checkpoints).toHaveLength(3);
      await backup(damaged, to, { mirror: true });
      expect(await new CheckpointManager({ storage: wrap(to) }).verify()).toMatchObject({
        status: 'clean',
        checkpoints: 4,
      });
      await damaged.close();
    },
  );
});

test.each([
  ['of a session that is gone', 'DELETE FROM session WHERE n=1'],
  ['whose kind was changed', "UPDATE ref SET kind='brand' WHERE session=1"],
])('[backup.2] a name %s is reported, and the other sessions are copied with theirs', async (_, sql) => {
  const path = join(temporaryFolder(), 'named.db');
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  for (const sessionId of ['damaged', 'whole']) await manager.save({ n: 1 }, { sessionId });
  await manager.close();
  const db = openDatabase(path);
  db.exec(sql);
  db.close();
  const to = memory();
  expect(await backup(path, to)).toMatchObject({ status: 'partial' });
  expect(await to.readRefs({ sessionId: 'whole' })).not.toEqual([]);
  expect((await new CheckpointManager({ storage: to }).session('whole')).state).toEqual({ n: 1 });
});

test.each([
  ['checkpoints', 'UPDATE checkpoint SET session=2 WHERE session=1 AND deleted=0'],
  ['a tombstone', 'UPDATE checkpoint SET session=1 WHERE session=2 AND deleted=1'],
  ['recorded steps', 'UPDATE effect SET session=2, ordinal=ordinal+50 WHERE session=1'],
])('[backup.2] %s moved to another session is damage, and the sessions after it are copied', async (_, sql) => {
  const path = join(temporaryFolder(), 'moved.db');
  const from = new SqliteCheckpointStorage({ path });
  for (const sessionId of ['damaged', 'other', 'whole']) await fill(from, sessionId);
  await from.close();
  const db = openDatabase(path);
  db.exec(sql);
  db.close();
  const to = memory();
  expect(await backup(path, to)).toMatchObject({ status: 'partial' });
  expect((await new CheckpointManager({ storage: to }).session('whole')).state).toMatchObject({
    messages: { length: 12 },
  });
  const damaged = new SqliteCheckpointStorage({ path });
  expect((await new CheckpointManager({ storage: damaged }).verify()).status).toBe('damaged');
  await damaged.close();
});
