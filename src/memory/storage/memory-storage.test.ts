import { copyFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { adminClient, freshSchema, postgresUrl } from '../../../test/support/postgres.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { openDatabase } from '../../storage/database/sqlite-driver.ts';
import { Memory } from '../memory.ts';
import type { MemoryEvent, MemoryOperation, MemoryStorage, NewMemoryEvent } from './memory-storage.ts';
import { PostgresMemoryStorage } from './postgres/postgres-memory-storage.ts';
import { SqliteMemoryStorage } from './sqlite/sqlite-memory-storage.ts';

function openSqlite(): MemoryStorage {
  const folder = temporaryFolder();
  return new SqliteMemoryStorage({ path: join(folder, 'history.db') });
}

function openPostgres(): MemoryStorage {
  return new PostgresMemoryStorage({ connectionString: postgresUrl(), schema: freshSchema(), tenant: 'acme' });
}

let clock = 1000;

function event(memoryId: string, changes: Partial<NewMemoryEvent> & { content?: string } = {}): NewMemoryEvent {
  const { content = `words of ${memoryId}`, ...rest } = changes;
  return {
    memoryId,
    operation: 'ADD',
    scope: { userId: 'ann' },
    atMs: clock++,
    fields: { content, hash: `hash of ${content}`, kind: 'episode', subject: 'ann' },
    ...rest,
  };
}

describe.each([
  ['SQLite', openSqlite],
  ['PostgreSQL', openPostgres],
])('memory storage on %s', (_name, openStorage) => {
  function open(): MemoryStorage {
    const storage = openStorage();
    onTestFinished(() => storage.close());
    return storage;
  }

  test('[memory.11] events come back as they were appended, in order, and can be read on from any of them', async () => {
    const storage = open();
    const place = {
      sessionId: 's',
      branch: 'main',
      checkpointId: 'chk_1',
      isAfter: false,
      lineage: [{ branch: 'main', base: '', to: 'chk_1' }],
    };
    const first = event('m1', {
      place,
      key: 'k1',
      actor: 'ann',
      reason: 'why not',
      previous: 'before',
      extracted: [1],
    });
    const result = await storage.append([first, event('m2')]);
    expect(result.status).toBe('stored');
    const events = await storage.readEvents({});
    expect(events).toEqual(result.status === 'stored' ? result.events.map((one) => expect.objectContaining(one)) : []);
    expect(await storage.readEvents({ afterSeq: events[0]?.seq ?? 0 })).toEqual([events[1]]);
    expect((await storage.readEvents({ memoryIds: ['m2', 'm3'] })).map(({ memoryId }) => memoryId)).toEqual(['m2']);
  });

  test('[memory.11] an append is all or none: a known key or a memory that moved on refuses all of it', async () => {
    const storage = open();
    const stored = await storage.append([event('m1', { key: 'k' })]);
    const seq = stored.status === 'stored' ? (stored.events[0]?.seq ?? 0) : 0;
    const twice = await storage.append([event('m2'), event('m3', { key: 'k' })]);
    const moved = await storage.append([event('m1')], { expectations: [{ memoryId: 'm1', lastSeq: seq - 1 }] });
    expect([twice.status, moved.status]).toEqual(['duplicate', 'moved']);
    expect(await storage.readEvents({})).toHaveLength(1);
    const fits = await storage.append([event('m1', { operation: 'RETRACT' })], {
      expectations: [
        { memoryId: 'm1', lastSeq: seq },
        { memoryId: 'new', lastSeq: 0 },
      ],
    });
    expect(fits.status).toBe('stored');
  });

  test('[memory.11] an append of what must be new is refused whole if the words of one are stored', async () => {
    const storage = open();
    await storage.append([event('m1', { content: 'said' })]);
    const isNew = true;
    const refused = [
      await storage.append([event('m2', { content: 'said' })], { isNew }),
      await storage.append([event('m3'), event('m4', { content: 'said' })], { isNew }),
    ];
    expect(refused.map(({ status }) => status)).toEqual(['duplicate', 'duplicate']);
    expect(await storage.readEvents({})).toHaveLength(1);
    const [first] = [await storage.append([event('m5', { key: 'k' })], { isNew })];
    expect(first.status === 'stored' && first.events).toEqual(await storage.readEvents({ memoryIds: ['m5'] }));
    const again = await storage.append([event('m6', { key: 'k' })], { isNew });
    expect([again.status, (await storage.append([event('m7', { content: 'said' })])).status]).toEqual([
      'duplicate',
      'stored',
    ]);
  });

  test('[memory.11] related events are those of the same key, words, slot or kind, and only in the scope', async () => {
    const storage = open();
    const fact = (id: string, changes: object) =>
      event(id, { fields: { content: id, hash: id, kind: 'fact', subject: 'ann', ...changes } });
    await storage.append([
      event('key', { key: 'k', scope: { agentId: 'elsewhere' } }),
      event('words', { content: 'same' }),
      fact('slot', { slot: 'home', kind: 'preference' }),
      fact('kind', {}),
      fact('other', { subject: 'bob', slot: 'home' }),
      { ...fact('foreign', {}), scope: { userId: 'bob' } },
    ]);
    const related = await storage.readRelated({
      scope: { userId: 'ann' },
      keys: ['k'],
      hashes: ['hash of same'],
      slots: [{ subject: 'ann', slot: 'home' }],
      kinds: [{ subject: 'ann', kind: 'fact' }],
    });
    expect(related.map(({ memoryId }) => memoryId)).toEqual(['key', 'words', 'slot', 'kind']);
  });

  test('[memory.11] a series is the turns of a session, or of a run outside of sessions, newest first', async () => {
    const storage = open();
    const place = { sessionId: 's', branch: 'main', checkpointId: '', isAfter: true, lineage: [] };
    const scope = { userId: 'ann', runId: 'r' };
    await storage.append([
      event('a', { scope, place }),
      event('b', { scope }),
      event('c', { scope, place }),
      event('d'),
    ]);
    const ids = async (query: { sessionId?: string }) =>
      (await storage.readSeries({ scope, ...query })).map(({ memoryId }) => memoryId);
    expect(await ids({ sessionId: 's' })).toEqual(['c', 'a']);
    expect(await ids({})).toEqual(['b']);
  });

  test('[memory.12] vectors are kept by model and read on from a position', async () => {
    const storage = open();
    await storage.append([event('m1'), event('m2', { scope: { userId: 'bob' } })]);
    const [m1 = 0, m2 = 0] = (await storage.readEvents({})).map(({ seq }) => seq);
    await storage.writeVectors('a', [
      { seq: m1, vector: Float32Array.of(0.5, -1) },
      { seq: m2, vector: Float32Array.of(1, 1) },
      { seq: 99_999, vector: Float32Array.of(9, 9) },
    ]);
    await storage.writeVectors('b', [{ seq: m1, vector: Float32Array.of(7) }]);
    const found = await storage.readVectors('a', { scope: { userId: 'ann' }, afterPosition: 0 });
    expect(found.map(({ seq, vector }) => [seq, [...vector]])).toEqual([[m1, [0.5, -1]]]);
    const after = found[0]?.position ?? 0;
    expect(await storage.readVectors('a', { scope: { userId: 'ann' }, afterPosition: after })).toEqual([]);
  });

  test('[memory.9] purged memories leave a tombstone and nothing else; numbers are not used again', async () => {
    const storage = open();
    await storage.append([event('m1'), event('m2')]);
    const before = await storage.readEvents({});
    await storage.writeVectors(
      'a',
      before.map(({ seq }) => ({ seq, vector: Float32Array.of(1) })),
    );
    const epoch = await storage.readEpoch();
    const { fields: _words, ...tombstone } = event('m2', { operation: 'PURGE' as MemoryOperation });
    const [m1] = before as [MemoryEvent];
    const rewritten = [{ ...m1, fields: { ...m1.fields, content: 'fewer', hash: 'h' } }];
    await storage.purge({ memoryIds: ['m2'], tombstones: [tombstone], rewritten });
    const after = await storage.readEvents({});
    expect(after.map(({ memoryId, operation }) => [memoryId, operation])).toEqual([
      ['m1', 'ADD'],
      ['m2', 'PURGE'],
    ]);
    expect(after[0]).toEqual(rewritten[0]);
    expect(JSON.stringify(after)).not.toContain('words of');
    expect(await storage.readVectors('a', { scope: { userId: 'ann' }, afterPosition: 0 })).toEqual([]);
    expect(await storage.readEpoch()).not.toBe(epoch);
    expect(after[1]?.seq).toBeGreaterThan(before[1]?.seq ?? 0);
    await storage.reset();
    expect(await storage.readEvents({})).toEqual([]);
  });

  test('[memory.11] after closing every call says so', async () => {
    const storage = openStorage();
    await storage.readEpoch();
    await storage.close();
    await storage.close();
    await expect(storage.readEvents({})).rejects.toMatchObject({ code: 'CLOSED' });
  });
});

test('[memory.11] tenants of one PostgreSQL schema see nothing of each other', async () => {
  const options = { connectionString: postgresUrl(), schema: freshSchema() };
  const [acme, other] = ['acme', 'other'].map((tenant) => new PostgresMemoryStorage({ ...options, tenant }));
  await Promise.all([acme?.append([event('m1', { key: 'k' })]), other?.readEpoch()]);
  expect(await other?.readEvents({})).toEqual([]);
  expect((await other?.append([event('m1', { key: 'k' })]))?.status).toBe('stored');
  await other?.reset();
  expect(await acme?.readEvents({})).toHaveLength(1);
  await Promise.all([acme?.close(), other?.close()]);
});

test('[memory.11] a file of version 7001 is read as it was, without its index of terms', async () => {
  const path = join(temporaryFolder(), 'history.db');
  copyFileSync(join(import.meta.dirname, '../../../test/golden/memory-7001.db'), path);
  for (let opened = 1; opened <= 2; opened++) {
    await using memory = new Memory({ path });
    const { results } = await memory.search('Where does Ann live?', { userId: 'ann' });
    expect(results[0]?.memory).toBe('I moved to Berlin.');
    expect(await memory.getAll({ userId: 'ann' })).toHaveLength(6);
    expect((await memory.search('bees', { userId: 'bob' })).results).toHaveLength(1);
  }
  const db = openDatabase(path);
  expect(db.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'memory_terms%'").all()).toEqual([]);
  db.close();
});

test('[memory.11] tables of version 1 on PostgreSQL are brought up to date', async () => {
  const options = { connectionString: postgresUrl(), schema: freshSchema(), tenant: 'acme' };
  const append = async () => {
    await using storage = new PostgresMemoryStorage(options);
    return (await storage.append([event('m1')])).status;
  };
  await append();
  const client = await adminClient();
  await client.query(`ALTER TABLE ${options.schema}.memory_event ADD COLUMN terms text[]`);
  await client.query(`UPDATE ${options.schema}.memory_version SET version = 1`);
  expect(await append()).toBe('stored');
  const { rows } = await client.query(
    "SELECT 1 FROM information_schema.columns WHERE table_schema = $1 AND column_name = 'terms'",
    [options.schema],
  );
  expect(rows).toEqual([]);
});

test('[memory.11] a file that is something else is left alone', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'other.db');
  const { SqliteCheckpointStorage } = await import('../../index.ts');
  const checkpoints = new SqliteCheckpointStorage({ path });
  expect(() => new SqliteMemoryStorage({ path })).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
  await checkpoints.close();
});

test('[input.1] a storage refuses options that it does not know, before it opens anything', () => {
  const path = join(tmpdir(), 'savestate-never-made', 'history.db');
  expect(() => new SqliteMemoryStorage({ path, busyTimeout: 5 } as object)).toThrow(/"busyTimeout".*busyTimeoutMs/);
  const options = { connectionString: postgresUrl(), tenant: 'acme', retryMs: 5 };
  expect(() => new PostgresMemoryStorage(options)).toThrow(/"retryMs"/);
  expect(() => new PostgresMemoryStorage({ connectionString: postgresUrl() } as never)).toThrow(/tenant/);
});
