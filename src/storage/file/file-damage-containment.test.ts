import { beforeEach, describe, expect, test } from 'vitest';
import { SimulatedDisk } from '../../../test/support/simulated-disk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import {
  Builders,
  commitOf,
  contentOf,
  deletionOf,
  moveBranch,
  rowOf,
  rowWithRootOf,
  session,
} from '../../testing/contract/builders.ts';
import { listDigests } from '../../testing/contract/contract-test.ts';
import type { NewCheckpoint } from '../contract.ts';
import { FileCheckpointStorage } from './file-storage.ts';

const PATH = '/store';
const HURT = `${PATH}/sessions/s-hurt`;
const ENTRY = `${HURT}/00000002.json`;
const PER_SESSION = 3;

const openOn = (disk: SimulatedDisk): FileCheckpointStorage =>
  new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });

/** Replaces a file's bytes, and gives back the old ones. */
function overwrite(disk: SimulatedDisk, path: string, change: (content: Uint8Array) => Uint8Array): Uint8Array {
  const node = disk.find(path);
  if (node?.kind !== 'file') throw new TypeError(`${path} is no file`);
  const before = node.content;
  node.content = change(before);
  return before;
}

const cut = (content: Uint8Array): Uint8Array => content.slice(0, content.length / 2);

/** Three sessions of one user with a branch, an effect and chunks each. */
async function populate(disk: SimulatedDisk) {
  const [storage, make] = [openOn(disk), new Builders()];
  const saved: NewCheckpoint[] = [];
  for (const sessionId of ['after', 'before', 'hurt']) {
    let parent: NewCheckpoint | undefined;
    for (let n = 0; n < PER_SESSION; n++) {
      const chunk = make.chunk();
      const checkpoint = make.checkpoint({ sessionId, userId: 'u', root: contentOf(chunk), ...(parent && { parent }) });
      const effects = [make.effect({ sessionId, ordinal: n })];
      await storage.commit(commitOf(checkpoint, { chunks: [chunk], refs: [moveBranch('main', checkpoint)], effects }));
      saved.push(checkpoint);
      parent = checkpoint;
    }
  }
  return { make, saved, lost: saved[2 * PER_SESSION + 1] as NewCheckpoint };
}

const isOf = (sessionId: string) => (checkpoint: NewCheckpoint) => checkpoint.header.sessionId === sessionId;
const corrupt = (path: string) => ({ code: 'CORRUPT', message: expect.stringContaining(path), details: { path } });

let disk = new SimulatedDisk();
let { make, saved, lost } = await populate(disk);

beforeEach(async () => {
  disk = new SimulatedDisk();
  ({ make, saved, lost } = await populate(disk));
});

describe.each([
  ['a flipped bit', () => disk.flipBit(ENTRY, 300)],
  ['a cut file', () => overwrite(disk, ENTRY, cut)],
  ['an empty file', () => overwrite(disk, ENTRY, () => new Uint8Array())],
  ['a missing file', () => disk.fileSystem().unlink(ENTRY)],
])('%s in one entry of one session', (_name, damage) => {
  let storage = openOn(disk);
  const hurt = () => saved.filter(isOf('hurt'));
  const sound = () => saved.filter((checkpoint) => checkpoint !== lost);

  beforeEach(async () => {
    await damage();
    storage = openOn(disk);
  });

  test('is left out of what spans sessions, and everything else is there', async () => {
    const rows = sound().map(rowOf);
    expect(await storage.listCheckpoints({ order: 'oldest', limit: 99 })).toEqual(rows);
    expect(await storage.listCheckpoints({ order: 'oldest', userId: 'u', limit: 99 })).toEqual(rows);
    expect(await storage.listCheckpoints({ order: 'oldest', idPrefix: 'chk_', limit: 99 })).toEqual(rows);
    expect(await storage.listSessions({ limit: 9 })).toEqual(['after', 'before', 'hurt']);
    expect(await storage.stats()).toMatchObject({ checkpoints: 8, tombstones: 0, sessions: 3, chunks: 9 });
    expect(await listDigests(storage)).toHaveLength(9);
    // A ref of the damaged session may be one that the lost entry moved: none of them is served.
    expect((await storage.readRefs()).map(({ sessionId }) => sessionId)).toEqual(['after', 'before']);
  });

  test('makes its own session refuse what needs the whole log, and nothing else', async () => {
    const next = make.checkpoint({ sessionId: 'hurt' });
    await expect(storage.commit(commitOf(next))).rejects.toMatchObject(corrupt(ENTRY));
    await expect(storage.readRefs({ sessionId: 'hurt' })).rejects.toMatchObject(corrupt(ENTRY));
    await expect(storage.readEffects({ sessionId: 'hurt' })).rejects.toMatchObject(corrupt(ENTRY));
    await expect(storage.listCheckpoints({ sessionId: 'hurt', limit: 9 })).rejects.toMatchObject(corrupt(ENTRY));
    await expect(storage.readCheckpoint(lost.header.id)).rejects.toMatchObject(corrupt(ENTRY));
    for (const checkpoint of sound())
      expect(await storage.readCheckpoint(checkpoint.header.id)).toEqual(rowWithRootOf(checkpoint));
    const other = make.checkpoint({ sessionId: 'after' });
    expect(await storage.commit(commitOf(other))).toEqual({ status: 'stored' });
    expect(await storage.readEffects({ sessionId: 'after' })).toHaveLength(PER_SESSION);
  });

  test('keeps every chunk until its session is deleted or the file is there again', async () => {
    await expect(storage.collect()).rejects.toMatchObject({
      ...corrupt(ENTRY),
      message: expect.stringMatching(/00000002\.json .* Run verify; restore the file, or delete the session/),
    });
    expect(await listDigests(storage)).toHaveLength(9);
    expect(await storage.checkIntegrity()).toEqual([expect.stringContaining(ENTRY)]);
    expect(await storage.deleteSession(session('hurt'))).toBe(true);
    expect(await storage.collect()).toMatchObject({ chunks: PER_SESSION });
    expect(await storage.checkIntegrity()).toEqual([]);
    expect(await storage.commit(commitOf(make.checkpoint({ sessionId: 'hurt' })))).toEqual({ status: 'stored' });
  });

  test('protects what is left of its session from deletion, and only that', async () => {
    const [first, ...others] = [hurt()[0], saved[0], saved[PER_SESSION]] as NewCheckpoint[];
    const doomed = [first as NewCheckpoint, ...others].map(deletionOf);
    await expect(storage.deleteCheckpoints(doomed, { force: true })).rejects.toMatchObject(corrupt(ENTRY));
    expect(await storage.deleteCheckpoints(doomed)).toEqual(others.map(({ header }) => header.id));
    expect(await storage.stats()).toMatchObject({ checkpoints: 6, tombstones: 2 });
  });
});

test('a file that is restored is noticed without opening the store again', async () => {
  const whole = overwrite(disk, ENTRY, cut);
  const storage = openOn(disk);
  expect(await storage.listCheckpoints({ limit: 99 })).toHaveLength(8);
  await expect(storage.readEffects({ sessionId: 'hurt' })).rejects.toMatchObject(corrupt(ENTRY));
  overwrite(disk, ENTRY, () => whole);
  expect(await storage.readCheckpoint(lost.header.id)).toEqual(rowWithRootOf(lost));
  expect(await storage.listCheckpoints({ limit: 99 })).toHaveLength(9);
  expect(await storage.readEffects({ sessionId: 'hurt' })).toHaveLength(PER_SESSION);
  expect(await storage.collect()).toEqual({ chunks: 0, bytes: 0 });
});

test('a damaged opening hides its own session only', async () => {
  const path = `${HURT}/session.json`;
  disk.flipBit(path, 100);
  const storage = openOn(disk);
  expect(await storage.listSessions({ limit: 9 })).toEqual(['after', 'before']);
  expect(await storage.listCheckpoints({ limit: 99 })).toHaveLength(2 * PER_SESSION);
  expect(await storage.readRefs()).toHaveLength(2);
  expect(await storage.stats()).toMatchObject({ checkpoints: 2 * PER_SESSION, sessions: 2 });
  expect(await storage.commit(commitOf(make.checkpoint({ sessionId: 'after' })))).toEqual({ status: 'stored' });
  await expect(storage.readCheckpoint(lost.header.id)).rejects.toMatchObject(corrupt(path));
  await expect(storage.readRefs({ sessionId: 'hurt' })).rejects.toMatchObject(corrupt(path));
  await expect(storage.collect()).rejects.toMatchObject(corrupt(path));
  expect(await storage.checkIntegrity()).toEqual([expect.stringContaining(path)]);
  expect(await storage.deleteSession(session('hurt'))).toBe(true);
  expect(await storage.collect()).toMatchObject({ chunks: PER_SESSION });
});

test('a damaged deletion brings no deleted checkpoint back', async () => {
  const hurt = saved.filter(isOf('hurt'));
  await openOn(disk).deleteCheckpoints(hurt.slice(0, 2).map(deletionOf));
  overwrite(disk, `${HURT}/00000004.json`, cut);
  const storage = openOn(disk);
  const rows = await storage.listCheckpoints({ order: 'oldest', include: 'all', limit: 99 });
  expect(rows).toEqual([...saved.slice(0, 2 * PER_SESSION), ...hurt.slice(2)].map(rowOf));
});

test('a manager goes on with all that is sound, and verify names the damaged file', async () => {
  const fresh = new SimulatedDisk();
  const first = new CheckpointManager({ storage: openOn(fresh) });
  for (const sessionId of ['one', 'two', 'hurt']) {
    const opened = await first.session(sessionId);
    for (let n = 1; n <= PER_SESSION; n++) await opened.save({ sessionId, n }, { userId: 'u' });
  }
  await first.close();
  // The last entry: an earlier one would also be missed by its children.
  const path = `${HURT}/0000000${PER_SESSION}.json`;
  fresh.flipBit(path, 300);
  const manager = new CheckpointManager({ storage: openOn(fresh) });
  expect((await manager.list()).checkpoints).toHaveLength(8);
  expect(await manager.listByUser('u')).toHaveLength(8);
  for (const { id, sequence } of await manager.listByUser('u'))
    expect(await manager.load(id)).toMatchObject({ n: sequence });

  const report = await manager.verify();
  expect(report).toMatchObject({ status: 'damaged', checkpoints: 8, sessions: 3, damagedCheckpoints: [] });
  expect(report.findings.map(({ problem }) => problem)).toContainEqual(expect.stringContaining(path));

  const one = await manager.session('one');
  expect(one.state).toEqual({ sessionId: 'one', n: PER_SESSION });
  await one.save({ sessionId: 'one', n: 4 }, { userId: 'u' });
  await expect(manager.session('hurt')).rejects.toMatchObject(corrupt(path));
  await expect(manager.gc()).rejects.toMatchObject(corrupt(path));
  const { deleted } = await manager.prune({ policy: { keepLast: 1, types: {} } });
  // Of the damaged session nothing is deleted: what its names point at is not known.
  expect(deleted.length).toBeGreaterThan(0);
  expect((await manager.list()).checkpoints.filter(({ sessionId }) => sessionId === 'hurt')).toHaveLength(2);

  expect(await manager.deleteSession('hurt')).toBe(true);
  await manager.gc();
  expect(await manager.verify()).toMatchObject({ status: 'clean', sessions: 2 });
  await manager.close();
});
