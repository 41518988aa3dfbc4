import { mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { SimulatedDisk } from '../../../test/support/simulated-disk.ts';
import type { Operation } from '../../../test/support/simulated-file-system.ts';
import type { SessionId } from '../../core/record/id.ts';
import { createChunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Builders, commitOf, contentOf, moveBranch, rowWithRootOf, session } from '../../testing/contract/builders.ts';
import type { NewCheckpoint } from '../contract.ts';
import { FileCheckpointStorage } from './file-storage.ts';
import { encodeSessionId } from './log-entry.ts';
import { FORMAT_TEXT } from './store.ts';

const PATH = '/store';
const SYNCS = ['syncFile', 'syncFolder'] as const;

async function withFolder(body: (path: string) => Promise<void>): Promise<void> {
  const path = await mkdtemp(join(tmpdir(), 'savestate-file-'));
  try {
    await body(path);
  } finally {
    await rm(path, { recursive: true });
  }
}

/** Saves checkpoints with chunks, one after the other, and tells how each went. */
async function saveMany(storage: FileCheckpointStorage, make: Builders, count: number) {
  const outcomes: { readonly checkpoint: NewCheckpoint; readonly error?: Error & { code?: string } }[] = [];
  for (let n = 0; n < count; n++) {
    const chunk = make.chunk();
    const checkpoint = make.checkpoint({ sessionId: `s-${n % 2}`, root: contentOf(chunk) });
    const commit = commitOf(checkpoint, { chunks: [chunk], refs: [moveBranch('main', checkpoint)] });
    outcomes.push(
      await storage.commit(commit).then(
        () => ({ checkpoint }),
        (error: Error) => ({ checkpoint, error }),
      ),
    );
  }
  return outcomes;
}

/** Lets the n-th sync of a process fail while it saves, and checks what was acknowledged after a power cut. */
async function saveWithFailedSync(disk: SimulatedDisk, nth: number, isSticky: boolean) {
  const fileSystem = disk.fileSystem({ faults: [{ on: SYNCS, nth, code: 'EIO', isSticky }] });
  const outcomes = await saveMany(new FileCheckpointStorage({ path: PATH, fileSystem }), new Builders(nth), 12);
  const again = new FileCheckpointStorage({ path: PATH, fileSystem: disk.cutPower(nth).fileSystem() });
  for (const { checkpoint, error } of outcomes) {
    if (error === undefined)
      expect(await again.readCheckpoint(checkpoint.header.id)).toEqual(rowWithRootOf(checkpoint));
    else expect(error.code).toBe('STORAGE');
  }
  expect(await again.checkIntegrity()).toEqual([]);
  expect((await saveMany(again, new Builders(1_000 + nth), 1))[0]?.error).toBeUndefined();
  return outcomes;
}

test.each([false, true])(
  'after a failed sync nothing is acknowledged until it is opened again (sticky: %s)',
  LATER,
  async (isSticky) => {
    for (let nth = 1; nth <= 50; nth++) {
      const disk = new SimulatedDisk();
      await new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() }).stats();
      const outcomes = await saveWithFailedSync(disk, nth, isSticky);
      const failed = outcomes.findIndex(({ error }) => error !== undefined);
      expect(failed).toBeGreaterThanOrEqual(0);
      // The first sync belongs to opening: that fails as a whole, and the next call opens again.
      if (nth > 1) expect(outcomes.slice(failed).every(({ error }) => error !== undefined)).toBe(true);
    }
  },
);

test('[durability.5] a save whose sync failed says so if it may be in the history', async () => {
  const told = new Set<unknown>();
  for (let nth = 2; nth <= 8; nth++) {
    const disk = new SimulatedDisk();
    await new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() }).stats();
    const fileSystem = disk.fileSystem({ faults: [{ on: SYNCS, nth, code: 'EIO' }] });
    const manager = new CheckpointManager({ storage: new FileCheckpointStorage({ path: PATH, fileSystem }) });
    const session = await manager.session('s');
    const saves = await Promise.allSettled([1, 2, 3].map((n) => session.save({ n })));
    const refused = saves.find((result) => result.status === 'rejected');
    const count = saves.filter(({ status }) => status === 'fulfilled').length;
    const killed = new CheckpointManager({
      storage: new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() }),
    });
    const isStored = (await killed.list({ sessionId: 's' })).checkpoints.length > count;
    expect(refused?.reason).toMatchObject({ code: 'STORAGE' });
    expect(refused?.reason.details.outcome).toBe(isStored ? 'unknown' : undefined);
    told.add(isStored);
  }
  expect(told).toEqual(new Set([true, false]));
});

test('a sync that fails while a store is made loses nothing', async () => {
  for (let nth = 1; nth <= 10; nth++) {
    for (const isSticky of [false, true]) await saveWithFailedSync(new SimulatedDisk(), nth, isSticky);
  }
});

test.each<Operation>(['write', 'createFile', 'makeFolder', 'link', 'rename', 'syncFile'])(
  'a full disk (%s) harms nothing, and saving goes on when there is space',
  async (operation) => {
    for (let nth = 1; nth <= 12; nth++) {
      const disk = new SimulatedDisk();
      const fileSystem = disk.fileSystem({ faults: [{ on: [operation], nth, code: 'ENOSPC' }] });
      const storage = new FileCheckpointStorage({ path: PATH, fileSystem });
      const outcomes = await saveMany(storage, new Builders(nth), 12);
      const failed = outcomes.filter(({ error }) => error !== undefined);
      expect(failed.length).toBeLessThanOrEqual(1);
      for (const { error } of failed) expect(error?.code).toBe('STORAGE');
      for (const { checkpoint, error } of outcomes) {
        const row = await storage.readCheckpoint(checkpoint.header.id);
        expect(row).toEqual(error === undefined ? rowWithRootOf(checkpoint) : undefined);
      }
      expect(disk.filePaths().filter((path) => /temp|locks/.test(path))).toEqual([]);
      expect(await storage.checkIntegrity()).toEqual([]);
    }
  },
);

test.each([
  ['ENOSPC', 'could not save: the disk is full. What was stored before is safe; free some space and retry.'],
  ['EDQUOT', 'could not save: the disk is full. What was stored before is safe; free some space and retry.'],
  ['EROFS', 'could not save: the disk is read-only. It can be looked at; to save, choose another path.'],
  ['EACCES', 'Change the permissions of the folder or choose another path.'],
  ['EMFILE', 'Check the path, its permissions and the disk.'],
])('a disk that takes no marker (%s) is told with advice, and can be looked at', async (code, told) => {
  const disk = new SimulatedDisk();
  await saveMany(new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() }), new Builders(), 2);
  const fileSystem = disk.fileSystem({ faults: [{ on: ['createFile'], nth: 1, code, isSticky: true }] });
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem });
  const [outcome] = await saveMany(storage, new Builders(7), 1);
  expect(outcome?.error).toMatchObject({ code: 'STORAGE', message: expect.stringContaining(told) });
  if (code !== 'EMFILE') expect(await storage.checkIntegrity()).toEqual([]);
  expect(await storage.listCheckpoints({ limit: 9 })).toHaveLength(2);
});

test('[durability.8] a folder that is deleted while it is open is told as such by saves and reads', async () => {
  await withFolder(async (folder) => {
    const path = join(folder, 'store');
    await using manager = new CheckpointManager({ storage: new FileCheckpointStorage({ path }) });
    const session = await manager.session('s');
    const id = await session.save({ n: 1 });
    await rename(path, `${path}.away`);
    const gone = { code: 'STORAGE', message: expect.stringContaining('deleted or moved while it was open') };
    await expect(session.save({ n: 2 })).rejects.toMatchObject(gone);
    await expect(manager.get(id)).rejects.toMatchObject(gone);
    await expect(manager.list()).rejects.toMatchObject(gone);
    await rename(`${path}.away`, path);
    await session.save({ n: 3 });
    expect((await manager.list()).checkpoints).toHaveLength(2);
  });
});

test('no session id becomes a path, and ids that look alike stay apart', async () => {
  const long = 'x'.repeat(512);
  const ids = [
    '..',
    '.',
    '/',
    '/etc/passwd',
    '../../x',
    'CON',
    'con',
    'nul',
    'a',
    'A',
    'ä',
    'a\u0308',
    'a.',
    'a ',
    '%2e',
    long,
  ];
  ids.push(`${long.slice(1)}y`, 'é'.repeat(200), 'É'.repeat(200), '\ud800', '\udfff', 'a\u0000b', '~', 'COM1.txt');
  const names = ids.map(encodeSessionId);
  expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(ids.length);
  for (const name of names) expect(name).toMatch(/^[sh]-[a-z0-9_%-]{1,210}$/);
  await withFolder(async (folder) => {
    const storage = new FileCheckpointStorage({ path: join(folder, 'deep', 'store') });
    const make = new Builders();
    const legal = ids.filter((id) => !/\p{Cc}|\p{Cs}/u.test(id));
    for (const sessionId of legal) await storage.commit(commitOf(make.checkpoint({ sessionId })));
    expect(await storage.listSessions({ limit: 100 })).toEqual([...legal].sort());
    for (const sessionId of legal) expect(await storage.listCheckpoints({ sessionId, limit: 9 })).toHaveLength(1);
    expect(await storage.readChunks(['../../../../etc/passwd' as Digest])).toEqual([undefined]);
    expect(await readdir(folder)).toEqual(['deep']);
    expect(await readdir(join(folder, 'deep'))).toEqual(['store']);
  });
});

test('a chunk file is its canonical form, and entries are JSON that people can read', async () => {
  await withFolder(async (path) => {
    const storage = new FileCheckpointStorage({ path });
    const make = new Builders();
    const leaf = createChunk({ text: '{"says":"hello"}', refs: [] });
    const checkpoint = make.checkpoint({ root: contentOf(leaf), note: 'first' });
    await storage.commit(commitOf(checkpoint, { chunks: [leaf] }));
    const { readFile } = await import('node:fs/promises');
    const stored = await readFile(join(path, 'chunks', leaf.digest.slice(0, 2), leaf.digest), 'utf8');
    expect(digestText(stored)).toBe(leaf.digest);
    const entry = JSON.parse(await readFile(join(path, 'sessions', 's-s-1', '00000001.json'), 'utf8'));
    expect(entry.checkpoint.body.note).toBe('first');
    expect(await readFile(join(path, 'format.json'), 'utf8')).toBe(FORMAT_TEXT);
  });
});

test('texts that JSON would change are given back as they went in', async () => {
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem: new SimulatedDisk().fileSystem() });
  const make = new Builders();
  const texts = [
    '{"a":1e2}',
    '{ "a" : 1 }',
    '{"b":1,"1":2}',
    '{"a":1,"a":2}',
    '-0',
    '"x"',
    '[-0]',
    'null',
    '{"__proto__":{"x":1}}',
  ];
  texts.push(`${'['.repeat(5_000)}${']'.repeat(5_000)}`, '"\\ud800"', '[1.0]');
  for (const text of texts) {
    const checkpoint = make.checkpoint({ root: { text, refs: [] } });
    await storage.commit(commitOf(checkpoint));
    expect((await storage.readCheckpoint(checkpoint.header.id))?.root?.text).toBe(text);
  }
});

test('a newer format is refused, and so is a folder of something else', async () => {
  await withFolder(async (path) => {
    await writeFile(join(path, 'notes.txt'), 'mine');
    const storage = new FileCheckpointStorage({ path });
    await expect(storage.listSessions({ limit: 1 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(await readdir(path)).toEqual(['notes.txt']);
    await writeFile(join(path, 'format.json'), FORMAT_TEXT.replace('1', '2'));
    await expect(storage.listSessions({ limit: 1 })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await writeFile(join(path, 'format.json'), '{}');
    await expect(storage.listSessions({ limit: 1 })).rejects.toMatchObject({ code: 'CORRUPT' });
    expect((await storage.checkIntegrity()).length).toBeGreaterThan(0);
    await expect(
      new FileCheckpointStorage({ path: join(path, 'notes.txt') }).listSessions({ limit: 1 }),
    ).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });
});

test('links inside a store lead nowhere', async () => {
  await withFolder(async (folder) => {
    const [path, outside] = [join(folder, 'store'), join(folder, 'outside')];
    const make = new Builders();
    const chunk = make.chunk();
    const storage = new FileCheckpointStorage({ path });
    await storage.commit(commitOf(make.checkpoint({ root: contentOf(chunk) }), { chunks: [chunk] }));
    await mkdir(outside);
    await writeFile(join(outside, 'secret'), '"secret"');
    const file = join(path, 'chunks', chunk.digest.slice(0, 2), chunk.digest);
    await rm(file);
    await symlink(join(outside, 'secret'), file);
    await expect(storage.readChunks([chunk.digest])).rejects.toMatchObject({ code: 'CORRUPT' });
    await symlink(outside, join(path, 'sessions', 's-evil'));
    await expect(storage.commit(commitOf(make.checkpoint({ sessionId: 'evil' })))).rejects.toMatchObject({
      code: 'CORRUPT',
    });
    await rm(join(path, 'temp'), { recursive: true });
    await symlink(outside, join(path, 'temp'));
    const again = new FileCheckpointStorage({ path });
    await expect(again.commit(commitOf(make.checkpoint()))).rejects.toMatchObject({ code: 'CORRUPT' });
    expect(await readdir(outside)).toEqual(['secret']);
    expect((await again.checkIntegrity()).length).toBeGreaterThan(1);
  });
});

test('a damaged entry names its file, and the rest stays usable', async () => {
  const disk = new SimulatedDisk();
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  const make = new Builders();
  const [a, b, c] = [make.checkpoint(), make.checkpoint(), make.checkpoint({ sessionId: 's-2' })];
  for (const checkpoint of [a, b, c]) await storage.commit(commitOf(checkpoint));
  disk.flipBit(`${PATH}/sessions/s-s-1/00000001.json`, 100);
  const again = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  await expect(again.readCheckpoint(a.header.id)).rejects.toMatchObject({ code: 'CORRUPT', message: /00000001\.json/ });
  await expect(again.readRefs({ sessionId: 's-1' })).rejects.toMatchObject({ code: 'CORRUPT' });
  await expect(again.commit(commitOf(make.checkpoint()))).rejects.toMatchObject({ code: 'CORRUPT' });
  await expect(again.collect()).rejects.toMatchObject({ code: 'CORRUPT' });
  expect(await again.readCheckpoint(b.header.id)).toEqual(rowWithRootOf(b));
  expect(await again.readCheckpoint(c.header.id)).toEqual(rowWithRootOf(c));
  expect(await again.listCheckpoints({ sessionId: 's-2', limit: 9 })).toHaveLength(1);
  await again.commit(commitOf(make.checkpoint({ sessionId: 's-2' })));
  expect(await again.checkIntegrity()).toHaveLength(1);
  expect(await again.deleteSession(session('s-1'))).toBe(true);
  expect(await again.checkIntegrity()).toEqual([]);
});

test('files put back from another life of a session, or taken away, are damage and not an endless search', async () => {
  const disk = new SimulatedDisk();
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  const make = new Builders();
  const first = make.checkpoint();
  await storage.commit(commitOf(first));
  const entry = `${PATH}/sessions/s-s-1/00000001.json`;
  const old = disk.find(entry);
  await storage.deleteSession(session('s-1'));
  const second = make.checkpoint();
  await storage.commit(commitOf(second));
  await disk.fileSystem().unlink(entry);
  await expect(storage.readCheckpoint(second.header.id)).rejects.toMatchObject({ code: 'CORRUPT' });
  disk.change({ folder: disk.parent(entry), name: '00000001.json', node: old });
  const again = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  await expect(again.readCheckpoint(second.header.id)).rejects.toMatchObject({ code: 'CORRUPT' });
  expect(await again.checkIntegrity()).toHaveLength(1);
});

test('a session that another process deleted and made again is noticed', async () => {
  const disk = new SimulatedDisk();
  const open = () => new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  const [one, two, make] = [open(), open(), new Builders()];
  for (let round = 0; round < 3; round++) {
    const [a, b] = [make.checkpoint(), make.checkpoint()];
    await one.commit(commitOf(a, { refs: [moveBranch('main', a, null)] }));
    expect(await two.readCheckpoint(a.header.id)).toEqual(rowWithRootOf(a));
    await two.commit(commitOf(b, { refs: [moveBranch('main', b, a.header.id)] }));
    expect((await one.readRefs())[0]?.target).toBe(b.header.id);
    await (round === 1 ? one : two).deleteSession('s-1' as SessionId);
  }
});

test('a marker of a living process makes others wait, and then fail with its number', async () => {
  const disk = new SimulatedDisk();
  const first = disk.fileSystem();
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem(), lockTimeoutMs: 20 });
  await storage.stats();
  const marker = `${PATH}/locks/exclusive-${first.processId}-0123456789abcdef`;
  await (await first.createFile(marker)).close();
  const pid = Number(first.processId.split('-')[0]);
  const checkpoint = new Builders().checkpoint();
  await expect(storage.commit(commitOf(checkpoint))).rejects.toMatchObject({ code: 'STORAGE', details: { pid } });
  await expect(storage.collect()).resolves.toEqual({ chunks: 0, bytes: 0 });
  await expect(storage.deleteSession(session('s-1'))).rejects.toMatchObject({ code: 'STORAGE', details: { pid } });
  disk.endProcess(first);
  expect(await storage.commit(commitOf(checkpoint))).toEqual({ status: 'stored' });
});

test('[durability.8] chunks that are deleted or replaced while the storage is open are noticed before a save is acknowledged', () =>
  withFolder(async (path) => {
    const manager = new CheckpointManager({ storage: new FileCheckpointStorage({ path }) });
    const session = await manager.session('s');
    const long = Array.from({ length: 200 }, (_, at) => `line ${at} `.repeat(20));
    await session.save({ long, n: 0 });
    for (const replace of [async () => undefined, () => mkdir(join(path, 'chunks'))]) {
      await rename(join(path, 'chunks'), join(path, 'away'));
      await replace();
      await expect(session.save({ long, n: 1 })).rejects.toMatchObject({
        code: 'STORAGE',
        message: expect.stringContaining('deleted while the storage was open'),
      });
      await rm(join(path, 'chunks'), { recursive: true, force: true });
      await rename(join(path, 'away'), join(path, 'chunks'));
      await session.save({ long, n: 2 });
    }
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  }));

test('[durability.8] a format file that is deleted or replaced while the storage is open is noticed before a save is acknowledged', () =>
  withFolder(async (path) => {
    const manager = new CheckpointManager({ storage: new FileCheckpointStorage({ path }) });
    const session = await manager.session('s');
    await session.save({ n: 0 });
    const file = join(path, 'format.json');
    for (const replace of [() => rm(file), () => writeFile(file, '{}')]) {
      await replace();
      const refused = { code: 'STORAGE', details: { path: file }, message: expect.stringContaining('Put it back') };
      await expect(session.save({ n: 1 })).rejects.toMatchObject(refused);
      await expect(session.step('call', () => 1)).rejects.toMatchObject(refused);
      await writeFile(file, FORMAT_TEXT);
      await session.save({ n: 2 });
    }
    await manager.close();
  }));

test.each(['removed', 'cut off'])(
  '[durability.8] a log whose end is %s while it is open is noticed before a save is acknowledged',
  async (what) => {
    const disk = new SimulatedDisk();
    const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
    const manager = new CheckpointManager({ storage });
    const work = await manager.session<{ n: number }>('s', { initial: { n: 0 } });
    for (let n = 1; n <= 4; n++) await work.save({ n });
    const path = `${PATH}/sessions/s-s/00000004.json`;
    const node = disk.find(path);
    if (node?.kind !== 'file') throw new TypeError(`${path} is no file`);
    if (what === 'removed') await disk.fileSystem().unlink(path);
    else node.content = node.content.slice(0, -9);
    await expect(work.save({ n: 5 })).rejects.toMatchObject({ code: 'STORAGE', details: { path } });
    const again = new CheckpointManager({ storage });
    const left = again.session('s');
    if (what === 'removed') expect((await left).state).toEqual({ n: 3 });
    else await expect(left).rejects.toMatchObject({ code: 'CORRUPT' });
    await manager.close();
  },
);

test('[storage.2] [save.3] a commit is refused if another process moved the branch and this one read that while it was under way', async () => {
  const disk = new SimulatedDisk();
  const make = new Builders(7);
  const other = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  const first = make.checkpoint();
  await other.commit(commitOf(first, { refs: [moveBranch('main', first)] }));
  const moved = make.checkpoint();
  const { sessionId } = first.header;
  const fileSystem = disk.fileSystem();
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem });
  const rename = fileSystem.rename.bind(fileSystem);
  fileSystem.rename = async (from, to) => {
    await rename(from, to); // of the chunk, before the entry
    await other.commit(commitOf(moved, { refs: [moveBranch('main', moved, first.header.id)] }));
    await storage.readRefs({ sessionId });
  };
  const chunk = make.chunk();
  const late = make.checkpoint({ root: contentOf(chunk) });
  const refs = [moveBranch('main', late, first.header.id)];
  await expect(storage.commit(commitOf(late, { chunks: [chunk], refs }))).rejects.toMatchObject({
    code: 'CONFLICT',
    details: { expected: first.header.id, found: moved.header.id },
  });
  expect(await storage.readRefs({ sessionId, kind: 'branch' })).toMatchObject([{ target: moved.header.id }]);
});
