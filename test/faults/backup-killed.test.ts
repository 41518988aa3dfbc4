import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CheckpointId } from '../../src/core/record/id.ts';
import { backup } from '../../src/manager/backup/backup.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { isPlaceholder } from '../../src/manager/transfer/copied-record.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { FolderObjects } from '../../src/storage/objects/folder-objects.ts';
import type { ObjectStore } from '../../src/storage/objects/object-store.ts';
import { withObjects } from '../../src/storage/objects/with-objects.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

const SESSIONS = ['a', 'b', 'c'];
const objecters = new WarmChildren('objecter', 1);
const backers = new WarmChildren('backer', 1);

/** Says and does a little in each session; now and then something is deleted. */
async function goOn(manager: CheckpointManager, round: number): Promise<void> {
  for (const id of SESSIONS) {
    const session = await manager.session(id, { initial: { said: [] as string[] } });
    session.state.said.push(`${id} in round ${round} `.repeat(500));
    await session.save();
    await session.step(`step ${round}`, () => `result ${round} `.repeat(500));
    await session.save();
  }
  if (round % 4 === 3) await manager.prune({ policy: { keepLast: 4 } });
}

/** Tombstones apart: each storage folds its own, when it likes. */
async function contentOf(storage: ChunkStorage): Promise<string> {
  const manager = new CheckpointManager({ storage });
  const lines: string[] = [];
  for (const id of SESSIONS)
    for await (const line of manager.exportSession(id)) if (!/^\{"(tombstone|end)":/.test(line)) lines.push(line);
  return lines.join('');
}

/** A session whose names were not set when the copy was killed: verify says so, and the next copy sets them. */
const isCutOff = (problem: string): boolean => problem.includes('was cut off');

/** A tombstone that was put in and not yet marked as deleted when the copy was killed has no content; the next copy ends it. */
async function isBegun(storage: ChunkStorage, subject: string): Promise<boolean> {
  const row = await storage.readCheckpoint(subject.replace('checkpoint ', '') as CheckpointId);
  return row !== undefined && isPlaceholder(row);
}

test.each([
  ['sqlite to files', false],
  ['files to sqlite, followed', true],
])('[backup.1] [backup.3] a backup killed at any commit is sound, and goes on: %s', async (name, follows) => {
  const random = seededRandom();
  const folder = temporaryFolder();
  const options = { path: join(folder, 'kills.db'), durability: 'process' } as const;
  const sqlite = { kind: 'sqlite', ...options };
  const file = { kind: 'file', path: join(folder, 'kills') };
  const stores = [new SqliteCheckpointStorage(options), new FileCheckpointStorage({ path: file.path })] as const;
  const [from, to] = follows ? [stores[1], stores[0]] : stores;
  const places = follows ? { from: file, to: sqlite } : { from: sqlite, to: file };
  const manager = new CheckpointManager({ storage: from });
  const failures: string[] = [];
  const rounds = trials(100);
  for (let round = 0; round < rounds; round++) {
    await goOn(manager, round);
    const child = await backers.next();
    child.tell({ ...places, follows, dieAt: 1 + random.below(9), isAfter: random.below(2) === 0 });
    const { signal } = await child.ended;
    if (signal !== 'SIGKILL') failures.push(`round ${round}: it ended. ${child.stderr}`);
    const { findings } = await new CheckpointManager({ storage: to }).verify();
    for (const { subject, problem } of findings)
      if (!isCutOff(problem) && !(await isBegun(to, subject))) failures.push(`round ${round}: ${subject}: ${problem}`);
  }
  if ((await backup(from, to, { mirror: true })).status !== 'complete') failures.push('the last one is not complete');
  if ((await new CheckpointManager({ storage: to }).verify()).status !== 'clean') failures.push('it is damaged');
  if ((await contentOf(to)) !== (await contentOf(from))) failures.push('it is not the same in the end');
  reportFaults(`backup killed, ${name}`, { trials: rounds, failures });
  expect(failures).toEqual([]);
  for (const storage of stores) await storage.close();
});

test('[objects.2] a writer killed around an object put loses nothing that was acknowledged', async () => {
  const random = seededRandom();
  const folder = temporaryFolder();
  const options = { path: join(folder, 'kills.db'), durability: 'process' } as const;
  const place = { storage: { kind: 'sqlite', ...options }, objects: join(folder, 'objects') };
  const inner = new FolderObjects(place.objects);
  const old: ObjectStore = {
    put: (name, bytes) => inner.put(name, bytes),
    get: (name, range) => inner.get(name, range),
    delete: (name) => inner.delete(name),
    async *list() {
      for await (const object of inner.list()) yield { ...object, modifiedMs: 0 };
    },
  };
  const saved: string[] = [];
  const failures: string[] = [];
  const rounds = trials(100);
  for (let round = 0; round < rounds; round++) {
    const child = await objecters.next();
    child.tell({ ...place, dieAt: 1 + random.below(3), isAfter: random.below(2) === 0 });
    await child.ended;
    saved.push(...child.said.flatMap(({ saved: id }) => (typeof id === 'string' ? [id] : [])));
    const manager = new CheckpointManager({ storage: withObjects(new SqliteCheckpointStorage(options), old) });
    await manager.gc();
    const { findings } = await manager.verify();
    for (const { subject, problem } of findings) failures.push(`round ${round}: ${subject}: ${problem}`);
    for (const id of saved) if ((await manager.get(id)) === undefined) failures.push(`round ${round}: ${id} is lost`);
    await manager.close();
  }
  reportFaults('large values killed', { trials: rounds, failures, notes: `${saved.length} saves` });
  expect(failures).toEqual([]);
  expect(saved.length).toBeGreaterThan(0);
});
