import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { builtFolder } from '../../../test/support/on-demand.ts';
import { Builders, commitOf, moveBranch, rowWithRootOf } from '../../testing/contract/builders.ts';
import { checkSqliteVersion, openDatabase, type SqlDatabase } from '../database/sqlite-driver.ts';
import { readPragma } from './sqlite-schema.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'savestate-open-'));
  path = join(folder, 'test.db');
});

afterEach(() => rmSync(folder, { recursive: true }));

function openError(options: ConstructorParameters<typeof SqliteCheckpointStorage>[0]): unknown {
  try {
    new SqliteCheckpointStorage(options);
    return undefined;
  } catch (error) {
    return error;
  }
}

function withDatabase<T>(work: (db: SqlDatabase) => T): T {
  const db = openDatabase(path);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

test('memory databases and missing paths are refused', () => {
  expect(openError({ path: ':memory:' })).toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(/InMemory/),
  });
  expect(openError({ path: '' })).toMatchObject({ code: 'INVALID_INPUT' });
  expect(openError({ path, busyTimeoutMs: -1 })).toMatchObject({ code: 'INVALID_INPUT' });
});

test('a folder that does not exist is named and not created', () => {
  const missing = join(folder, 'missing', 'test.db');
  expect(openError({ path: missing })).toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(/missing/),
  });
  expect(existsSync(join(folder, 'missing'))).toBe(false);
});

test.each([
  ['emptied', (file: string) => writeFileSync(file, '')],
  ['moved away', (file: string) => rmSync(file)],
])('[durability.2] a file that was %s beside its log is refused, and the log left as it is', async (_, damage) => {
  const storage = await filled(path, new Builders());
  const copy = join(folder, 'copy.db');
  for (const part of ['', '-wal']) copyFileSync(`${path}${part}`, `${copy}${part}`);
  await storage.close();
  damage(copy);
  const log = readFileSync(`${copy}-wal`);
  expect(log.length).toBeGreaterThan(0);
  expect(openError({ path: copy })).toMatchObject({ code: 'CORRUPT', message: expect.stringContaining('its log') });
  expect(readFileSync(`${copy}-wal`).equals(log)).toBe(true);
  rmSync(`${copy}-wal`);
  expect(openError({ path: copy })).toBeUndefined();
});

test('a folder in place of the file is refused', () => {
  mkdirSync(path);
  expect(openError({ path })).toMatchObject({ code: 'STORAGE', message: expect.stringMatching(/not a file/) });
});

test.each(['short', 'x'.repeat(10_000)])('a file that is not SQLite is refused and left alone', (text) => {
  writeFileSync(path, text);
  expect(openError({ path })).toMatchObject({ code: 'CORRUPT', message: expect.stringMatching(/not a SQLite/) });
  expect(readFileSync(path, 'utf8')).toBe(text);
});

test('the database of another program is refused and left alone', () => {
  withDatabase((db) => db.exec('CREATE TABLE theirs(a); PRAGMA user_version=7'));
  const before = readFileSync(path);
  expect(openError({ path })).toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(/another program/),
  });
  expect(readFileSync(path).equals(before)).toBe(true);
});

test('a newer format is refused and left alone', async () => {
  await new SqliteCheckpointStorage({ path }).close();
  withDatabase((db) => db.exec('PRAGMA user_version=3'));
  expect(openError({ path })).toMatchObject({ code: 'UNSUPPORTED', details: { found: 3, supported: 2 } });
  expect(withDatabase((db) => readPragma(db, 'user_version'))).toBe(3);
});

test('[format.1] a database of version 1 is one of version 2 once it is opened, so that an older release does not open it', async () => {
  copyFileSync(join(import.meta.dirname, '../../../test/golden/format-1.db'), path);
  expect(withDatabase((db) => readPragma(db, 'user_version'))).toBe(1);
  const storage = new SqliteCheckpointStorage({ path });
  expect(await storage.checkIntegrity()).toEqual([]);
  await storage.close();
  expect(withDatabase((db) => readPragma(db, 'user_version'))).toBe(2);
});

test('a changed table definition is found at opening', async () => {
  await new SqliteCheckpointStorage({ path }).close();
  withDatabase((db) => db.exec('DROP INDEX checkpoint_id'));
  expect(openError({ path })).toMatchObject({ code: 'CORRUPT', message: expect.stringMatching(/checkpoint_id/) });
});

test('an SQLite with the WAL-reset bug is refused', () => {
  const old = { prepare: () => ({ get: () => ({ version: '3.51.2' }) }) } as unknown as SqlDatabase;
  expect(() => checkSqliteVersion(old)).toThrow(/3\.51\.2/);
  const recent = { prepare: () => ({ get: () => ({ version: '3.53.0' }) }) } as unknown as SqlDatabase;
  expect(() => checkSqliteVersion(recent)).not.toThrow();
});

test.each(['power', 'process'] as const)('durability %s is set again on every opening', async (durability) => {
  await new SqliteCheckpointStorage({ path, durability }).close();
  await using _again = new SqliteCheckpointStorage({ path, durability });
  expect(withDatabase((db) => db.prepare('PRAGMA journal_mode').get())).toMatchObject({ journal_mode: 'wal' });
});

test('after closing everything is in one file', async () => {
  const make = new Builders();
  const checkpoint = make.checkpoint();
  const storage = new SqliteCheckpointStorage({ path });
  await storage.commit(commitOf(checkpoint, { refs: [moveBranch('main', checkpoint, null)] }));
  await storage.close();
  const copy = join(folder, 'copy.db');
  copyFileSync(path, copy);
  await using again = new SqliteCheckpointStorage({ path: copy, compress: true });
  expect(await again.readCheckpoint(checkpoint.header.id)).toEqual(rowWithRootOf(checkpoint));
});

test('a closed file that was replaced keeps its log when the closed connection is collected', async () => {
  const make = new Builders();
  await (await filled(path, make)).close();
  rmSync(path);
  await using _storage = await filled(path, make);
  const log = statSync(`${path}-wal`);
  collectGarbage();
  await new Promise((done) => setTimeout(done, 20));
  expect(statSync(`${path}-wal`)).toMatchObject({ ino: log.ino, size: log.size });
});

async function filled(path: string, make: Builders): Promise<SqliteCheckpointStorage> {
  const storage = new SqliteCheckpointStorage({ path });
  const checkpoint = make.checkpoint();
  await storage.commit(commitOf(checkpoint, { refs: [moveBranch('main', checkpoint, null)] }));
  return storage;
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
}

test('a read-only file in a read-only folder can be looked at, and refuses a commit', async () => {
  await new SqliteCheckpointStorage({ path }).close();
  for (const log of [`${path}-wal`, `${path}-shm`]) rmSync(log, { force: true }); // empty, and there until it is collected
  chmodSync(path, 0o444);
  chmodSync(folder, 0o555);
  try {
    await using storage = asNobody(() => new SqliteCheckpointStorage({ path, busyTimeoutMs: 0 }));
    expect(await storage.listSessions({ limit: 1 })).toEqual([]);
    const refused = { code: 'STORAGE', message: expect.stringMatching(/read-only/) };
    await expect(storage.commit(commitOf(new Builders().checkpoint()))).rejects.toMatchObject(refused);
    writeFileSync(`${path}-wal`, 'somebody writes');
    await expect(storage.stats()).rejects.toThrow('somebody else writes to it');
  } finally {
    chmodSync(folder, 0o755);
  }
});

test('a new file in a read-only folder is refused', () => {
  chmodSync(folder, 0o555);
  try {
    expect(asNobody(() => openError({ path, busyTimeoutMs: 0 }))).toMatchObject({
      code: 'STORAGE',
      message: expect.stringMatching(/permissions/),
    });
  } finally {
    chmodSync(folder, 0o755);
  }
});

/** Root may write everything, so that these two tests give up being root while they open the file. */
function asNobody<T>(work: () => T): T {
  const { seteuid, geteuid } = process;
  if (seteuid === undefined || geteuid?.call(process) !== 0) return work();
  if (existsSync(path)) chownSync(path, 0, 0);
  seteuid.call(process, 65534);
  try {
    return work();
  } finally {
    seteuid.call(process, 0);
  }
}

test('the warning about an experimental SQLite, and only that, is silent', () => {
  const script = `import('${pathToFileURL(`${builtFolder()}/storage/sqlite/sqlite-storage.js`)}').then(async ({ SqliteCheckpointStorage: S }) => {
    await new S({ path: ${JSON.stringify(path)} }).close();
    process.emitWarning('still heard');
  })`;
  const stderr = execFileSync('sh', ['-c', '"$0" -e "$1" 2>&1 >/dev/null', process.execPath, script], {
    encoding: 'utf8',
  });
  expect(stderr).not.toMatch(/Experimental/);
  expect(stderr).toMatch(/still heard/);
});
