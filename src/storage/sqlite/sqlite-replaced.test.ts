import { randomBytes } from 'node:crypto';
import { cpSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { SqliteMemoryStorage } from '../../memory/storage/sqlite/sqlite-memory-storage.ts';
import { SqliteConnection } from '../database/sqlite-connection.ts';
import { openDatabase, type SqlDatabase } from '../database/sqlite-driver.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

/** A session of a file that holds more than its log does. */
async function openSession() {
  const path = join(temporaryFolder(), 'a.db');
  const before = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  await before.save({ text: randomBytes(50_000).toString('hex') }, { sessionId: 'before' });
  await before.close();
  const storage = new SqliteCheckpointStorage({ path });
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  const id = await session.save({ n: 1 });
  return { path, storage, manager, session, id };
}

const CUTS: readonly [string, (log: string) => void][] = [
  ['an empty log', (log) => truncateSync(log)],
  ['the head of its log', (log) => truncateSync(log, 31)],
  ['half of its log', (log) => truncateSync(log, statSync(log).size / 2)],
  ['a log without its last byte', (log) => truncateSync(log, statSync(log).size - 1)],
];

const CHANGES: readonly [string, (path: string) => void][] = [
  ['deleted', (path) => rmSync(path)],
  ['moved', (path) => renameSync(path, `${path}.old`)],
  [
    'replaced by a backup',
    (path) => {
      cpSync(path, `${path}.bak`);
      renameSync(`${path}.bak`, path);
    },
  ],
  ['left without its log', (path) => rmSync(`${path}-wal`)],
  ['left without the index of its log', (path) => rmSync(`${path}-shm`)],
  ['left without its pages', (path) => truncateSync(path)],
  ['left with half of its pages', (path) => truncateSync(path, statSync(path).size / 2)],
  ['left without its last byte', (path) => truncateSync(path, statSync(path).size - 1)],
  ...CUTS.map(([name, cut]): [string, (path: string) => void] => [`left with ${name}`, (path) => cut(`${path}-wal`)]),
];

test.each(CHANGES)(
  '[durability.8] a database that is %s while it is open acknowledges nothing more',
  async (_, change) => {
    const { path, manager, session, id } = await openSession();
    change(path);
    const refused = { code: 'STORAGE', message: expect.stringContaining('open it again') };
    await expect(session.save({ n: 2 })).rejects.toMatchObject(refused);
    await expect(session.step('pay', () => 1)).rejects.toMatchObject(refused);
    await expect(manager.load(id)).rejects.toMatchObject(refused);
    await expect(manager.list()).rejects.toMatchObject(refused);
    await expect(manager.tag(id, 'good')).rejects.toMatchObject(refused);
    await expect(manager.delete(id)).rejects.toMatchObject(refused);
    const report = await manager.verify();
    expect(report.status).toBe('damaged');
    expect(report.findings[0]?.problem).toContain('open it again');
    await Promise.allSettled([manager.close()]);
  },
);

test.each<[string, (path: string) => void]>([
  ['moved', (path) => renameSync(path, `${path}.old`)],
  ['left without its log', (path) => renameSync(`${path}-wal`, `${path}-wal.old`)],
  ['left without the index of its log', (path) => rmSync(`${path}-shm`)],
  ['left without its pages', (path) => truncateSync(path)],
])(
  '[durability.8] a database that is %s while a commit is under way says that the outcome is unknown',
  async (_, change) => {
    const path = join(temporaryFolder(), 'a.db');
    const tables = {
      isEmpty: (db: SqlDatabase) => db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined,
      create: (db: SqlDatabase) => db.exec('CREATE TABLE t (n); INSERT INTO t VALUES (randomblob(9000))'),
    };
    const connection = new SqliteConnection(path, tables);
    await connection.write(() => connection.db.exec('INSERT INTO t VALUES (randomblob(9000))'));
    const committed = connection.write(() => {
      connection.db.exec('UPDATE t SET n = 2');
      change(path);
    });
    const message = expect.stringContaining('may be stored or lost');
    await expect(committed).rejects.toMatchObject({ code: 'STORAGE', details: { outcome: 'unknown' }, message });
    await Promise.allSettled([connection.close()]);
  },
);

test('[durability.8] a database that another connection makes larger or smaller is not taken for a cut one', async () => {
  const { path, manager, session } = await openSession();
  const other = openDatabase(path);
  const sizeAfter = async (...sql: readonly string[]): Promise<number> => {
    for (const statement of sql) other.exec(statement);
    expect(await manager.load(await session.save({ sql: [...sql] }))).toEqual({ sql });
    return statSync(path).size;
  };
  const checkpoint = 'PRAGMA wal_checkpoint(TRUNCATE)';
  const fill = ['CREATE TABLE filler (bytes)', 'INSERT INTO filler VALUES (randomblob(500000))'];
  const filled = await sizeAfter(...fill, checkpoint);
  const emptied = await sizeAfter('DROP TABLE filler', 'PRAGMA incremental_vacuum', checkpoint);
  expect(emptied).toBeLessThan(filled);
  expect(await sizeAfter(...fill)).toBe(emptied); // the pages are in the log alone
  expect(await sizeAfter(checkpoint)).toBeGreaterThan(emptied);
  other.close();
  await manager.close();
});

test('[durability.8] a cut database is not written to when it is closed', async () => {
  const { path, manager } = await openSession();
  truncateSync(path, statSync(path).size / 2);
  const { size } = statSync(path);
  await expect(manager.close()).rejects.toMatchObject({ code: 'STORAGE', message: expect.stringContaining('was cut') });
  expect(statSync(path).size).toBe(size);
});

test.each([
  ['log was deleted', (path: string) => rmSync(`${path}-wal`)],
  ['index was deleted', (path: string) => rmSync(`${path}-shm`)],
  ['index was cut', (path: string) => truncateSync(`${path}-shm`)],
  ['index was cut in half', (path: string) => truncateSync(`${path}-shm`, statSync(`${path}-shm`).size / 2)],
])(
  '[durability.8] a database whose %s is closed with all that was saved, and opened again in the same process',
  async (_, change) => {
    const { path, manager, session, id } = await openSession();
    change(path);
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'STORAGE' });
    await manager.close();
    await expectWhole(path, id);
  },
);

/** The file takes saves again. */
async function expectWhole(path: string, id: string): Promise<void> {
  for (let round = 0; round < 2; round++) {
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
    expect(await manager.load(id)).toEqual({ n: 1 });
    const saved = await (await manager.session('s')).save({ round });
    expect(await manager.load(saved)).toEqual({ round });
    expect((await manager.verify()).status).toBe('clean');
    await manager.close();
  }
}

test.each([0, 100, 16_384])(
  '[durability.8] an index of the log that was cut to %d bytes is made anew from the log',
  async (bytes) => {
    const { path, manager, session, id } = await openSession();
    truncateSync(`${path}-shm`, bytes);
    const message = expect.stringContaining('call it again');
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'STORAGE', message });
    const saved = await session.save({ n: 3 });
    expect(await Promise.all([manager.load(id), manager.load(saved)])).toEqual([{ n: 1 }, { n: 3 }]);
    expect((await manager.verify()).status).toBe('clean');
    await manager.close();
    await expectWhole(path, id);
  },
);

test('[durability.8] a database that is put back is used again', async () => {
  const { path, manager, session } = await openSession();
  renameSync(path, `${path}.old`);
  await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'STORAGE' });
  renameSync(`${path}.old`, path);
  const again = await manager.session('s');
  expect(await manager.load(await again.save({ n: 3 }))).toEqual({ n: 3 });
  await manager.close();
});

test.each(CUTS)(
  '[durability.8] a database that was left with %s opens again in the same process with what is in the rest',
  async (_, cut) => {
    const { path, storage, manager, session, id } = await openSession();
    await storage.collect(); // empties the log
    const lost = await session.save({ n: 2 });
    cut(`${path}-wal`);
    await expect(session.save({ n: 3 })).rejects.toMatchObject({ code: 'STORAGE' });
    await expect(manager.close()).rejects.toMatchObject({
      code: 'STORAGE',
      message: expect.stringContaining('was cut'),
    });
    const next = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
    await expect(next.load(lost)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await next.close();
    await expectWhole(path, id);
  },
);

test('[durability.8] the database of a long-term memory that is deleted while it is open acknowledges nothing more', async () => {
  const path = join(temporaryFolder(), 'memory.db');
  const storage = new SqliteMemoryStorage({ path });
  rmSync(path);
  await expect(storage.append([])).rejects.toMatchObject({ code: 'STORAGE' });
  await storage.close();
});
