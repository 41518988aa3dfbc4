import { mkdtempSync, readdirSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Chunk, createChunk } from '../../core/tree/chunk.ts';
import { Builders, commitOf, contentOf, deletionOf, moveBranch, session } from '../../testing/contract/builders.ts';
import { SqliteConnection } from '../database/sqlite-connection.ts';
import { openDatabase } from '../database/sqlite-driver.ts';
import { ChunkNumbers } from './chunk-numbers.ts';
import { CommitQueue } from './commit-queue.ts';
import { prepareCommit } from './prepared-commit.ts';
import { encodePlain } from './sqlite-codec.ts';
import { checkpointTables } from './sqlite-schema.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

let folder: string;
let path: string;
let make: Builders;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'savestate-queue-'));
  path = join(folder, 'test.db');
  make = new Builders();
});

afterEach(() => rmSync(folder, { recursive: true }));

test('a commit that fails after it wrote something leaves no trace, and its group is stored', async () => {
  await using storage = new SqliteCheckpointStorage({ path });
  const first = make.checkpoint();
  await storage.commit(commitOf(first));
  const [lost, kept] = [make.chunk(), make.chunk()];
  const settled = await Promise.allSettled([
    storage.commit(commitOf(make.checkpoint({ sessionId: 's-2' }), { chunks: [kept] })),
    // The id is taken, which shows only when the chunk and the session are written already.
    storage.commit(commitOf(make.checkpoint({ id: first.header.id, sessionId: 's-3' }), { chunks: [lost] })),
    storage.commit(commitOf(make.checkpoint({ sessionId: 's-4' }))),
  ]);
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(settled[1]).toMatchObject({
    reason: { code: 'CONFLICT', message: expect.stringMatching(/exists already/) },
  });
  expect(await storage.readChunks([lost.digest, kept.digest])).toEqual([undefined, kept]);
  expect(await storage.listSessions({ limit: 10 })).toEqual(['s-1', 's-2', 's-4']);
});

test('two chunks with the same first half of their digests are never taken for one', async () => {
  await using storage = new SqliteCheckpointStorage({ path });
  const chunk = make.chunk();
  const twin = { ...make.chunk(), digest: `${chunk.digest.slice(0, 32)}${'0'.repeat(32)}` } as Chunk;
  await storage.commit(commitOf(make.checkpoint(), { chunks: [chunk] }));
  await expect(storage.commit(commitOf(make.checkpoint(), { chunks: [twin] }))).rejects.toMatchObject({
    code: 'CORRUPT',
  });
  expect(await storage.readChunks([chunk.digest, twin.digest])).toEqual([chunk, undefined]);
});

test('names that SQLite would cut off are refused or not found', async () => {
  await using storage = new SqliteCheckpointStorage({ path });
  const checkpoint = make.checkpoint({ sessionId: 'a' });
  await storage.commit(commitOf(checkpoint));
  const cut = 'a\0b' as typeof checkpoint.header.sessionId;
  await expect(storage.commit({ sessionId: cut })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(await storage.deleteSession(cut)).toBe(false);
  expect(
    await storage.deleteCheckpoints([{ ...deletionOf(checkpoint), id: `${checkpoint.header.id}\0` as never }]),
  ).toEqual([]);
  expect(await storage.readEffects({ sessionId: 'a\0' })).toEqual([]);
});

test('a text with a NUL comes back as it was', async () => {
  await using storage = new SqliteCheckpointStorage({ path });
  const chunk = make.chunk([], '"a\0b"');
  await storage.commit(commitOf(make.checkpoint(), { chunks: [chunk] }));
  expect(await storage.readChunks([chunk.digest])).toEqual([chunk]);
});

test('a full disk fails the whole group and loses nothing; writing goes on when there is space', async () => {
  const connection = new SqliteConnection(path, checkpointTables(4096), { durability: 'power', busyTimeoutMs: 100 });
  const queue = new CommitQueue(connection, new ChunkNumbers(connection));
  const add = (text: string) =>
    queue.add(() =>
      prepareCommit(commitOf(make.checkpoint(), { chunks: [make.chunk([], JSON.stringify(text))] }), encodePlain),
    );
  await add('before');
  const { page_count: pages } = connection.db.prepare('PRAGMA page_count').get() as { page_count: number };
  connection.db.exec(`PRAGMA max_page_count=${pages + 2}`);
  const settled = await Promise.allSettled([add('small'), add('x'.repeat(50_000))]);
  for (const one of settled)
    expect(one).toMatchObject({ reason: { code: 'STORAGE', message: expect.stringMatching(/full/) } });
  expect(connection.db.prepare('SELECT count(*) AS count FROM checkpoint').get()).toMatchObject({ count: 1 });
  connection.db.exec('PRAGMA max_page_count=1000000');
  expect(await add('x'.repeat(50_000))).toEqual({ status: 'stored' });
  await connection.close();
});

test.skipIf(process.platform !== 'linux')(
  'a storage that is closed before its log can be emptied lets go of its files: nothing writes to them later',
  async () => {
    const storage = new SqliteCheckpointStorage({ path });
    await storage.commit(commitOf(make.checkpoint()));
    const opened = readdirSync('/proc/self/fd').filter((fd) => isLinkTo(`${path}-wal`, fd)).length;
    const reader = openDatabase(path);
    reader.exec('BEGIN; SELECT count(*) FROM checkpoint');
    await storage.commit(commitOf(make.checkpoint()));
    await storage.close();
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    const left = readdirSync('/proc/self/fd').filter((fd) => isLinkTo(`${path}-wal`, fd)).length;
    expect([opened, left]).toEqual([1, 1]); // the reader's
    reader.close();
  },
);

function isLinkTo(path: string, fd: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`) === path;
  } catch {
    return false; // closed meanwhile
  }
}

test('relaxed commits are not synced, commits in mixed groups are', async () => {
  const connection = new SqliteConnection(path, checkpointTables(4096), { durability: 'power', busyTimeoutMs: 100 });
  const queue = new CommitQueue(connection, new ChunkNumbers(connection));
  const synchronous = () => connection.db.prepare('PRAGMA synchronous').get();
  const add = (durability: 'default' | 'relaxed') =>
    queue.add(() => prepareCommit(commitOf(make.checkpoint(), { durability }), encodePlain));
  await add('relaxed');
  expect(synchronous()).toMatchObject({ synchronous: 1 });
  await Promise.all([add('relaxed'), add('default')]);
  expect(synchronous()).toMatchObject({ synchronous: 2 });
  await connection.close();
});

test('a collection gives space back to the disk and wipes what it removed', async () => {
  const storage = new SqliteCheckpointStorage({ path });
  const secret = 'a-very-secret-text';
  for (let i = 0; i < 20; i++) {
    const chunks = Array.from({ length: 20 }, (_, n) =>
      make.chunk([], JSON.stringify(`${secret} ${i} ${n} ${'x'.repeat(3000)}`)),
    );
    await storage.commit(commitOf(make.checkpoint({ root: contentOf(...chunks) }), { chunks }));
  }
  const keep = make.checkpoint({ sessionId: 's-2' });
  await storage.commit(commitOf(keep, { refs: [moveBranch('main', keep, null)] }));
  const before = (await storage.stats()).bytes;
  await storage.deleteSession(session('s-1'));
  const { chunks, bytes } = await storage.collect();
  expect(chunks).toBe(400);
  expect(bytes).toBeGreaterThan(1_000_000);
  const { bytes: after } = await storage.stats();
  expect(after).toBeLessThan(before - 1_000_000);
  expect(await storage.checkIntegrity()).toEqual([]);
  await storage.close();
  expect(statSync(path).size).toBe(after); // [storage.19] the log is not counted
  expect(statSync(path).size).toBeLessThan(200_000);
  const { readFileSync } = await import('node:fs');
  expect(readFileSync(path).includes(secret)).toBe(false);
});

test('a collection can be aborted', async () => {
  await using storage = new SqliteCheckpointStorage({ path });
  await storage.commit(commitOf(make.checkpoint(), { chunks: [make.chunk()] }));
  await expect(storage.collect({ signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
});

test('compressed and plain rows live side by side', async () => {
  const chunks = [make.chunk([], JSON.stringify({ role: 'user', content: 'hello '.repeat(200) })), make.chunk()];
  const effect = make.effect({
    ordinal: 0,
    result: contentOf(...chunks),
    body: JSON.stringify({ kind: 'tool', note: 'n'.repeat(200) }),
  });
  for (const compress of [true, false]) {
    await using storage = new SqliteCheckpointStorage({ path, compress });
    await storage.commit(
      commitOf(make.checkpoint({ metadata: { compress }, root: contentOf(...chunks) }), { chunks, effects: [effect] }),
    );
  }
  await using storage = new SqliteCheckpointStorage({ path });
  expect(await storage.readChunks(chunks.map(({ digest }) => digest))).toEqual(chunks);
  expect(await storage.readEffects({ sessionId: 's-1' })).toEqual([effect]);
  expect(await storage.listCheckpoints({ metadata: { compress: true }, limit: 5 })).toHaveLength(1);
  expect(await storage.listCheckpoints({ limit: 5 })).toHaveLength(2);
  expect(await storage.checkIntegrity()).toEqual([]);
});

test('a chunk that another process collected and that was brought again is found under its new number', async () => {
  const [one, two] = [new SqliteCheckpointStorage({ path }), new SqliteCheckpointStorage({ path })];
  const shared = make.chunk([], '"shared"');
  const node = createChunk(contentOf(shared));
  const first = make.checkpoint({ root: contentOf(node) });
  await one.commit(commitOf(first, { chunks: [shared, node] }));
  await two.deleteCheckpoints([deletionOf(first)]);
  expect((await two.collect()).chunks).toBe(2);
  await two.commit(commitOf(make.checkpoint(), { chunks: [make.chunk()] }));
  const second = make.checkpoint({ root: contentOf(node) });
  await two.commit(commitOf(second, { chunks: [shared, node] }));
  expect(await one.readReachable([node.digest])).toHaveLength(2);
  expect(await one.readChunks(Array.from({ length: 20 }, () => shared.digest))).toEqual(Array(20).fill(shared));
  const third = make.checkpoint({ root: contentOf(shared, node), parent: second });
  await one.commit(commitOf(third, { requires: [second.header.id] }));
  expect((await two.readCheckpoint(third.header.id))?.root).toEqual(third.root);
  await Promise.all([one.close(), two.close()]);
});

test('[storage.1] a session that another process deleted and began anew is not taken for what has its number now', async () => {
  const [one, two] = [new SqliteCheckpointStorage({ path }), new SqliteCheckpointStorage({ path })];
  await one.commit(commitOf(make.checkpoint({ sessionId: 's-1' })));
  await two.deleteSession(session('s-1'));
  const other = make.checkpoint({ sessionId: 's-2' });
  await two.commit(commitOf(other, { refs: [moveBranch('main', other, null)] }));
  const again = make.checkpoint({ sessionId: 's-1' });
  await one.commit(commitOf(again, { refs: [moveBranch('main', again, null)] }));
  expect(await two.listSessions({ limit: 10 })).toEqual(['s-1', 's-2']);
  expect(await two.readRefs({ sessionId: session('s-1') })).toMatchObject([{ target: again.header.id }]);
  expect(await two.readRefs({ sessionId: session('s-2') })).toMatchObject([{ target: other.header.id }]);
  await Promise.all([one.close(), two.close()]);
});

test('a transaction that lost its lock and runs again stores its chunks, although it had given them numbers', async () => {
  const connection = new SqliteConnection(path, checkpointTables(4096), { durability: 'process', busyTimeoutMs: 1000 });
  const losing = {
    db: connection.db,
    prepare: (sql: string) => connection.prepare(sql),
    write: (work: () => unknown) => {
      connection.db.exec('BEGIN IMMEDIATE');
      work();
      connection.db.exec('ROLLBACK');
      return connection.write(work);
    },
  } as unknown as SqliteConnection;
  const numbers = new ChunkNumbers(losing);
  const queue = new CommitQueue(losing, numbers);
  const inner = make.chunk();
  const outer = createChunk({ text: '[{"$":0}]', refs: [inner.digest] });
  const again = make.chunk();
  await queue.add(() => prepareCommit(commitOf(make.checkpoint(), { chunks: [inner, outer] }), encodePlain));
  await queue.add(() => prepareCommit(commitOf(make.checkpoint(), { chunks: [outer, again] }), encodePlain));
  await connection.close();
  await using storage = new SqliteCheckpointStorage({ path });
  expect(await storage.readChunks([inner.digest, outer.digest, again.digest])).toEqual([inner, outer, again]);
  expect(await storage.stats()).toMatchObject({ chunks: 3 });
});
