import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { openDatabase } from '../../src/storage/database/sqlite-driver.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { Child } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { isSameValue } from '../support/same-value.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';
import { conversationOf } from './children/states.mjs';

type Kind = 'sqlite' | 'file';
const KINDS: readonly Kind[] = ['sqlite', 'file'];
const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154', 'hex');
const NOBODY = 65534;

function openStorage(kind: Kind, path: string): ChunkStorage {
  return kind === 'sqlite'
    ? new SqliteCheckpointStorage({ path, busyTimeoutMs: 200 })
    : new FileCheckpointStorage({ path });
}

/** What opening and saving comes to: a code, or `saved`. */
async function tryToSave(kind: Kind, path: string): Promise<{ code: unknown; message: unknown }> {
  try {
    const manager = new CheckpointManager({ storage: openStorage(kind, path) });
    await manager.save({ hello: 'world' });
    await manager.close();
    return { code: 'saved', message: '' };
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    return { code, message };
  }
}

async function fill(kind: Kind, path: string): Promise<void> {
  const manager = new CheckpointManager({ storage: openStorage(kind, path) });
  const session = await manager.session('chat');
  for (let count = 1; count <= 5; count++) await session.save(conversationOf(count));
  await manager.close();
}

async function expectWhole(kind: Kind, path: string): Promise<void> {
  const manager = new CheckpointManager({ storage: openStorage(kind, path) });
  expect(isSameValue((await manager.session('chat')).state, conversationOf(5))).toBe(true);
  expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 5 });
  await manager.close();
}

/** How often the event loop turns before something is over: a count, because how long a turn takes is up to the machine. */
async function countTurns(work: Promise<unknown>): Promise<number> {
  let isOver = false;
  void work.then(() => {
    isOver = true;
  });
  let turns = 0;
  for (; !isOver; turns++) await nextTurn();
  return turns;
}

describe('files that are not ours', () => {
  test.each([
    ['a text', Buffer.from('These are my notes.\n'.repeat(500))],
    ['a short text', Buffer.from('hi')],
    ['a picture', Buffer.concat([PNG, Buffer.alloc(5000, 7)])],
    ['zeros', Buffer.alloc(8192)],
  ])('[durability.6] %s as a database is refused by a clear error and left alone', async (_, content) => {
    const path = join(temporaryFolder(), 'file.db');
    writeFileSync(path, content);
    const { code, message } = await tryToSave('sqlite', path);
    expect(code).toBe('CORRUPT');
    expect(message).toContain(path);
    expect(readFileSync(path).equals(content)).toBe(true);
  });

  test('[durability.6] the database of another program is refused by a clear error and left alone', async () => {
    const path = join(temporaryFolder(), 'other.db');
    const db = openDatabase(path);
    db.exec("CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customer VALUES(1, 'Ann')");
    db.close();
    const before = readFileSync(path);
    expect(await tryToSave('sqlite', path)).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/another program/),
    });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test('[durability.6] a folder with other things in it, and a file in place of a folder, are refused and left alone', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'photo.png'), PNG);
    expect(await tryToSave('file', folder)).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/photo\.png/),
    });
    expect(readdirSync(folder)).toEqual(['photo.png']);
    expect(await tryToSave('file', join(folder, 'photo.png'))).toMatchObject({ code: 'INVALID_INPUT' });
    expect(readFileSync(join(folder, 'photo.png')).equals(PNG)).toBe(true);
  });
});

describe.each(KINDS)('a newer format of %s', (kind) => {
  test('[durability.6] is refused by an error that says so, and nothing is lost', async () => {
    const path = join(temporaryFolder(), 'newer');
    await fill(kind, path);
    setVersion(kind, path, 99);
    expect(await tryToSave(kind, path)).toMatchObject({ code: 'UNSUPPORTED', message: expect.stringMatching(/99/) });
    setVersion(kind, path, 1);
    await expectWhole(kind, path);
  });
});

function setVersion(kind: Kind, path: string, version: number): void {
  if (kind === 'file') {
    const format = join(path, 'format.json');
    writeFileSync(format, readFileSync(format, 'utf8').replace(/"version": \d+/, `"version": ${version}`));
    return;
  }
  const db = openDatabase(path);
  db.exec(`PRAGMA user_version=${version}`);
  db.close();
}

describe.each(KINDS)('no right to write %s', (kind) => {
  test('[durability.7] a process without the right gets a clear error, and nothing is lost', async () => {
    const folder = join(temporaryFolder(), 'locked');
    chmodSync(join(folder, '..'), 0o755);
    mkdirSync(folder);
    const path = join(folder, 'store');
    await fill(kind, path);
    const places = [
      folder,
      ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
    ];
    for (const place of places) chmodSync(place, statSync(place).isDirectory() ? 0o555 : 0o444);
    // Rights do not bind root, so that the child becomes nobody if we are root.
    const userId = process.getuid?.() === 0 ? NOBODY : undefined;
    const child = new Child('powerless');
    child.tell({ storage: { kind, path }, userId });
    const { result, message } = await child.heard('result');
    // An empty log stays until the closed connection is collected.
    for (const place of places.filter((name) => existsSync(name)))
      chmodSync(place, statSync(place).isDirectory() ? 0o755 : 0o644);
    expect({ result, message }).toMatchObject({ result: 'STORAGE', message: expect.stringContaining(path) });
    await expectWhole(kind, path);
  });
});

describe('a database that another process has locked', () => {
  test('[durability.6] gives a clear error after busyTimeoutMs, never blocks this process, and loses nothing', async () => {
    const path = join(temporaryFolder(), 'locked.db');
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, busyTimeoutMs: 600 }) });
    const failures: unknown[] = [];
    manager.on('save_failed', (error) => failures.push(error));
    const session = await manager.session('chat');
    await session.save(conversationOf(1));
    const locker = new Child('locker');
    locker.tell({ path });
    await locker.heard('held');
    const begin = performance.now();
    const refused = session.save(conversationOf(2)).catch((error: unknown) => error);
    const turns = await countTurns(refused);
    const waitedMs = performance.now() - begin;
    expect(await refused).toMatchObject({
      code: 'STORAGE',
      message: expect.stringMatching(/locked by another process/),
    });
    // Reading goes on meanwhile.
    expect(await manager.load(session.head?.id ?? '')).toEqual(conversationOf(1));
    const waiting = session.save(conversationOf(3));
    locker.tell('go');
    const id = await waiting;
    expect(waitedMs).toBeGreaterThan(500);
    expect(turns).toBeGreaterThan(20); // SQLite's own waiting is one piece, without a turn
    expect(failures).toHaveLength(1);
    expect(await manager.get(id)).toMatchObject({ sequence: 2 });
    expect(await manager.load(id)).toEqual(conversationOf(3));
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 2 });
    await manager.close();
  });
});

describe.each(KINDS)('several processes that create one %s at once', (kind) => {
  test('[durability.6] all of them can save, and all is there', async () => {
    const faults: string[] = [];
    const runs = trials(50);
    const names = ['a', 'b', 'c', 'd'];
    // Four processes for all runs: each storage is as new to them as to four others, and nobody is late because it still starts.
    const children = names.map(() => new Child('creator'));
    await Promise.all(children.map((child) => child.heard('ready')));
    for (let run = 0; run < runs; run++) {
      const path = join(temporaryFolder(), 'new');
      for (const [at, child] of children.entries()) child.tell({ storage: { kind, path }, name: names[at], run });
      await Promise.all(
        children.map((child) => child.heard(`finished ${run}`).catch((error: unknown) => faults.push(String(error)))),
      );
      const manager = new CheckpointManager({ storage: openStorage(kind, path) });
      for (const name of names)
        if (!isSameValue((await manager.session(name)).state, conversationOf(3)))
          faults.push(`run ${run}: ${name} is lost`);
      const { findings, checkpoints } = await manager.verify();
      faults.push(...findings.map(({ subject, problem }) => `run ${run}: ${subject}: ${problem}`));
      if (checkpoints !== 12) faults.push(`run ${run}: ${checkpoints} checkpoints`);
      await manager.close();
    }
    reportFaults(`creating one ${kind} at once`, { trials: runs, failures: faults });
    expect(faults).toEqual([]);
  });
});

const MOUNT = 'mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@"';
const CAN_MOUNT = spawnSync('unshare', ['-rm', 'sh', '-c', MOUNT, '64k', '/mnt', 'true']).status === 0;
if (!CAN_MOUNT) console.log('SKIPPED: no file system can be mounted here (unshare -rm), so that no disk can be full.');

describe.skipIf(!CAN_MOUNT).each(KINDS)('a full disk under %s', (kind) => {
  test('[durability.7] a save fails by a clear error, everything acknowledged stays, and saving goes on when there is space', async () => {
    const random = seededRandom();
    const faults: string[] = [];
    const disks = trials(64);
    let saves = 0;
    for (let disk = 0; disk < disks; disk++) {
      const sizeKiB = (kind === 'sqlite' ? 600 : 400) + random.below(600);
      const folder = temporaryFolder();
      const child = new Child('full-disk', { wrapper: ['unshare', '-rm', 'sh', '-c', MOUNT, `${sizeKiB}k`, folder] });
      child.tell({
        storage: { kind, path: join(folder, 'store'), ...(random.below(3) === 0 && { durability: 'process' }) },
        ballast: join(folder, 'ballast'),
        ballastBytes: 200_000 + random.below(100_000),
      });
      await child.ended;
      const found = child.said.find((said) => 'failed' in said);
      const { failed, count, wrong, status, findings } = found ?? { failed: child.stderr };
      saves += Number(count ?? 0);
      const isGood = failed === 'STORAGE' && status === 'clean' && Array.isArray(wrong) && wrong.length === 0;
      if (!isGood) faults.push(`${sizeKiB} KiB: ${JSON.stringify({ failed, count, wrong, status, findings })}`);
    }
    reportFaults(`full disks under ${kind}`, {
      trials: disks,
      failures: faults,
      notes: `saves=${saves} seed=${random.seed}`,
    });
    expect(faults).toEqual([]);
  });
});
