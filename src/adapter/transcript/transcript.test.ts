import { describe, expect, test } from 'vitest';
import { describeOn, LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { SetTimer } from '../../core/time/timer.ts';
import { type Chunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Engine } from '../../manager/engine/engine.ts';
import { nameHolder } from '../../manager/lease/lease-refs.ts';
import type { ChunkStorage, Commit, CommitResult } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/index.ts';
import { openAdapterEngine } from '../adapter-storage.ts';
import { Transcript } from './transcript.ts';
import { Transcripts } from './transcripts.ts';

type Item = { readonly id: number; readonly text?: string; readonly parts?: readonly unknown[] };

const SESSION = 'chat/1' as SessionId;
const item = (id: number): Item => ({ id, text: `item ${id}` });
const items = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => item(from + at));

const bound = (target: ChunkStorage, key: string | symbol): unknown => {
  const value: unknown = Reflect.get(target, key);
  return typeof value === 'function' ? value.bind(target) : value;
};

const open = (storage: ChunkStorage, branch?: string) =>
  new Transcripts<Item>(openAdapterEngine({ storage }), 'test').open(SESSION, branch);

describeOn(STORAGES)('a transcript in %s', (_, create) => {
  test('loads what was appended, or the last items of it, in another object too', async () => {
    const { storage, reopen } = create();
    const transcript = open(storage);
    expect(await transcript.load()).toEqual([]);
    await transcript.append(items(0, 3));
    await transcript.append([]);
    await transcript.append([item(3)]);
    const again = open(reopen?.() ?? storage);
    expect(await again.load()).toEqual(items(0, 4));
    expect(await again.load(2)).toEqual(items(2, 4));
    expect(await again.load(0)).toEqual([]);
    expect(await again.load(9)).toEqual(items(0, 4));
  });

  test('[retention.7] on a branch that is in use stays when retention ends the forgotten ones', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const manager = new CheckpointManager({ storage: create().storage, now: () => nowMs });
    const transcripts = new Transcripts<Item>(manager.engine, 'test');
    const main = transcripts.open(SESSION);
    await main.append(items(0, 2));
    for (const branch of ['used', 'forgotten']) await main.fork({ branch });
    const used = transcripts.open(SESSION, 'used');
    await used.append([item(2)]);
    nowMs += 40 * 86_400_000;
    await main.append([item(3)]);
    await manager.cleanupOldCheckpoints({ maxAgeDays: 30 });
    expect((await manager.branches(SESSION)).map(({ branch }) => branch).toSorted()).toEqual(['main', 'used']);
    await used.append([item(4)]);
    expect(await used.load()).toEqual([...items(0, 3), item(4)]);
    await manager.close();
  });

  test('pops, clears and replaces a suffix that is as expected', async () => {
    const { storage } = create();
    const transcript = open(storage);
    expect(await transcript.pop()).toBeUndefined();
    await transcript.append(items(0, 5));
    expect(await transcript.pop()).toEqual(item(4));
    await transcript.replaceSuffix({ expected: items(2, 4), replacement: items(7, 10) });
    expect(await transcript.load()).toEqual([...items(0, 2), ...items(7, 10)]);
    const stale = transcript.replaceSuffix({ expected: items(2, 4), replacement: [] });
    await expect(stale).rejects.toThrow('The last 2 items of session "chat/1" are not the expected ones');
    const tooLong = transcript.replaceSuffix({ expected: items(0, 9), replacement: [] });
    await expect(tooLong).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await transcript.load()).toHaveLength(5);
    await transcript.clear();
    expect(await transcript.load()).toEqual([]);
  });

  test('an operation id makes a change once, and no other', async () => {
    const { storage, reopen } = create();
    const one = open(storage);
    await one.append(items(0, 2), { operationId: 'a' });
    await one.append([item(2)]);
    const two = open(reopen?.() ?? storage);
    await two.append(items(0, 2), { operationId: 'a' });
    expect(await two.load()).toEqual(items(0, 3));
    await expect(two.append([item(9)], { operationId: 'a' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(two.pop({ operationId: 'a' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const replace = { expected: [item(2)], replacement: [item(5)] };
    await two.replaceSuffix(replace, { operationId: 'r' });
    await one.replaceSuffix(replace, { operationId: 'r' }); // its suffix is gone, because it was done
    expect(await one.pop({ operationId: 'p' })).toEqual(item(5));
    expect(await two.pop({ operationId: 'p' })).toEqual(item(5));
    await two.clear({ operationId: 'c' });
    await two.append([item(6)]);
    await one.clear({ operationId: 'c' });
    expect(await one.load()).toEqual([item(6)]);
  });

  test('forks at an item; both sides go on', async () => {
    const { storage } = create();
    const main = open(storage);
    await expect(main.fork({ branch: 'none' })).rejects.toThrow('has 0 items, so it cannot be forked');
    await main.append(items(0, 10));
    await main.fork({ branch: 'try', at: 4 }, { operationId: 'f' });
    await main.fork({ branch: 'try', at: 4 }, { operationId: 'f' });
    await expect(main.fork({ branch: 'try', at: 5 })).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(main.fork({ branch: 'far', at: 11 })).rejects.toThrow('Give a number from 0 to 10');
    const fork = open(storage, 'try');
    await fork.append([item(99)]);
    await main.append([item(10)]);
    expect(await fork.load()).toEqual([...items(0, 4), item(99)]);
    expect(await main.load()).toEqual(items(0, 11));
    await expect(open(storage, 'tri').load()).rejects.toThrow('has no branch "tri" (it has: main, try)');
  });

  test('follows the branch that a rewind makes current', async () => {
    const { storage } = create();
    const transcript = open(storage);
    await transcript.append(items(0, 2));
    await transcript.append([item(2)]);
    const manager = new CheckpointManager({ storage });
    const { checkpoints } = await manager.list({ sessionId: SESSION });
    await manager.rewind(checkpoints[1]?.id ?? '');
    expect(await transcript.load()).toEqual(items(0, 2));
    await transcript.append([item(8)]);
    expect(await transcript.load()).toEqual([...items(0, 2), item(8)]);
  });

  test('several writers lose nothing', async () => {
    const { storage, reopen } = create();
    const writers = [open(storage), open(reopen?.() ?? storage), open(storage)];
    await Promise.all(
      writers.map(async (writer, at) => {
        for (let n = 0; n < 6; n++) await writer.append([item(at * 100 + n)]);
      }),
    );
    const loaded = (await open(storage).load()).map(({ id }) => id);
    for (const [at] of writers.entries())
      expect(loaded.filter((id) => Math.floor(id / 100) === at)).toEqual([0, 1, 2, 3, 4, 5].map((n) => at * 100 + n));
    expect(loaded).toHaveLength(18);
  });

  test('is deleted as a whole, and begins anew', async () => {
    const { storage } = create();
    const [one, two] = [open(storage), open(storage)];
    await one.append(items(0, 3));
    await two.load();
    expect(await one.delete()).toBe(true);
    expect(await one.delete()).toBe(false);
    await two.append([item(7)]);
    expect(await one.load()).toEqual([item(7)]);
  });

  test('is a state like any other: compared, verified, and gc finds nothing out of reach', async () => {
    const { storage } = create();
    const transcript = open(storage);
    const long = (id: number): Item => ({ id, parts: [{ type: 'text', text: `body ${id} `.repeat(60) }] });
    await transcript.append(Array.from({ length: 30 }, (_, id) => long(id)));
    await transcript.append([long(30)]);
    const manager = new CheckpointManager({ storage });
    const [after, before] = (await manager.list({ sessionId: SESSION })).checkpoints;
    const { added } = await manager.compare(before?.id ?? '', after?.id ?? '');
    expect(added.map(({ path }) => path)).toEqual(['$.items[30]', '$.bodies[30]']);
    expect((await manager.verify()).findings).toEqual([]);
    expect((await manager.gc()).chunks).toBe(0);
    expect(await transcript.load(1)).toEqual([long(30)]);
  });
});

class CountingStorage extends InMemoryCheckpointStorage {
  chars = 0;
  read = 0;

  override async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    const chunks = await super.readReachable(digests);
    this.read += chunks.length;
    return chunks;
  }

  override readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    this.read += digests.length;
    return super.readChunks(digests);
  }

  override commit(commit: Commit): Promise<CommitResult> {
    for (const { text } of [commit.checkpoint?.root, ...(commit.chunks ?? [])].flatMap((chunk) => chunk ?? []))
      this.chars += text.length;
    return super.commit(commit);
  }
}

const message = (id: number) => ({
  id,
  parentId: id - 1,
  role: 'user',
  parts: [{ text: `words of ${id} `.repeat(80) }],
});

test('a copy with other ids shares the bodies', async () => {
  const storage = new CountingStorage();
  const transcripts = new Transcripts(openAdapterEngine({ storage }), 'test');
  const first = transcripts.open('first' as SessionId);
  await first.append(Array.from({ length: 50 }, (_, id) => message(id)));
  const whole = storage.chars;
  const copies = (await first.load()).map((item, at) => ({
    ...(item as object),
    id: `copy-${at}`,
    parentId: `copy-${at - 1}`,
  }));
  await transcripts.open('second' as SessionId).append(copies);
  const { bytes, chunks } = await storage.stats();
  await transcripts.open('second' as SessionId).delete();
  await storage.collect();
  const alone = await storage.stats();
  expect(whole).toBeGreaterThan(50 * 1000);
  expect(chunks - alone.chunks).toBeLessThan(75);
  expect(bytes - alone.bytes).toBeLessThan(0.35 * alone.bytes);
});

test('an append writes as much to a long transcript as to a short one', async () => {
  const storage = new CountingStorage();
  const transcript = new Transcripts(openAdapterEngine({ storage }), 'test').open(SESSION);
  const measure = async (length: number) => {
    storage.chars = 0;
    for (let n = 0; n < 20; n++) await transcript.append([message(length + n)]);
    return storage.chars;
  };
  await transcript.append(Array.from({ length: 100 }, (_, id) => message(id)));
  const short = await measure(100);
  await transcript.append(Array.from({ length: 4880 }, (_, id) => message(120 + id)));
  expect(await measure(5000)).toBeLessThan(1.3 * short);
});

test('what another writer appended is read without the rest, and nothing is lost when both append', LATER, async () => {
  const storage = new CountingStorage();
  const [one, two] = [open(storage), open(storage)] as [Transcript, Transcript];
  await one.append(Array.from({ length: 2000 }, (_, id) => message(id)));
  await two.load(1);
  storage.read = 0;
  for (let id = 2000; id < 2020; id++) await (id % 2 === 0 ? one : two).append([message(id)]);
  expect(storage.read).toBeLessThan(300);
  expect(await two.load()).toEqual(Array.from({ length: 2020 }, (_, id) => message(id)));
  const manager = new CheckpointManager({ storage });
  expect((await manager.verify()).findings).toEqual([]);
});

test('a writer that others are always faster than gets its turn', async () => {
  const storage = new InMemoryCheckpointStorage();
  const [quick, behind] = [open(storage), [] as Promise<void>[]];
  await quick.append([item(0)]);
  // Before each commit of the slow one the quick one appends, unless it is asked to wait.
  const commit = async (commit: Commit): Promise<CommitResult> => {
    if (commit.checkpoint === undefined) return storage.commit(commit);
    if (behind.length > 20) throw new Error('It never gets its turn.');
    behind.push(quick.append([item(behind.length + 1)]));
    if (commit.refs?.every(({ kind }) => kind === 'branch') === true) await behind.at(-1);
    return storage.commit(commit);
  };
  const slow = open(new Proxy(storage, { get: (target, key) => (key === 'commit' ? commit : bound(target, key)) }));
  await slow.append([item(99)], { operationId: 'slow' });
  await Promise.all(behind);
  const ids = (await quick.load()).map(({ id }) => id);
  expect(ids.filter((id) => id !== 99)).toEqual(Array.from({ length: behind.length + 1 }, (_, id) => id));
  expect(ids.at(-2)).toBe(99);
  expect(await storage.readRefs({ kind: 'mark' })).toEqual([]);
});

test.each([
  ['not used', nameHolder('one').replace('@', '@elsewhere-'), 100],
  ['of a dead process', nameHolder('two').replace(/\/\d+-/, '/999999999-'), 0],
])('a turn that is %s is taken over', async (_, target, pauses) => {
  const storage = new InMemoryCheckpointStorage();
  let paused = 0;
  const setTimer: SetTimer = (run) => {
    paused++;
    setImmediate(run);
    return () => undefined;
  };
  const transcript = new Transcript<Item>(Engine.open({ storage, setTimer }), { adapter: 'test', sessionId: SESSION });
  await transcript.append([item(0)]);
  const turn = { kind: 'mark', name: `turn:${digestText('main')}`, expect: null, target } as const;
  await storage.commit({ sessionId: SESSION, refs: [turn] });
  await transcript.append([item(1)]);
  expect(await transcript.load()).toHaveLength(2);
  expect(paused > 0).toBe(pauses > 0);
  expect(paused).toBeGreaterThanOrEqual(pauses);
  expect(await storage.readRefs({ kind: 'mark' })).toEqual([]);
});

test('what is taken in and handed out are copies', async () => {
  const transcript = open(new InMemoryCheckpointStorage()) as Transcript;
  const given = { list: [1], bytes: new Uint8Array([1, 2]), nothing: undefined, body: 'x'.repeat(400) };
  const append = transcript.append([given]);
  given.list.push(2);
  given.bytes[0] = 9;
  await append;
  const [loaded] = (await transcript.load()) as [typeof given];
  expect(loaded).toStrictEqual({
    list: [1],
    bytes: new Uint8Array([1, 2]),
    nothing: undefined,
    body: 'x'.repeat(400),
  });
  expect(Object.keys(loaded)).toEqual(Object.keys(given));
  loaded.list.push(3);
  loaded.bytes[0] = 7;
  expect(await transcript.load()).toMatchObject([{ list: [1], bytes: new Uint8Array([1, 2]) }]);
});

test('a storage of three methods will do, behind a manager', async () => {
  const rows = new Map<string, { userId?: string }>();
  const storage = {
    save: async (checkpoint: { id: string }) => {
      rows.set(checkpoint.id, JSON.parse(JSON.stringify(checkpoint)));
      return checkpoint.id;
    },
    load: async (id: string) => rows.get(id),
    listByUser: async (userId: string) => [...rows.values()].filter((row) => row.userId === userId),
  };
  const manager = new CheckpointManager({ storage: storage as never });
  const transcript = new Transcripts<Item>(openAdapterEngine({ manager }), 'test').open(SESSION);
  await transcript.append(items(0, 3));
  await transcript.append([item(3)], { operationId: 'a' });
  await transcript.append([item(3)], { operationId: 'a' });
  expect(await transcript.load()).toEqual(items(0, 4));
  expect(rows.size).toBe(2);
});

describe('bad input', () => {
  test('an item that cannot be saved is refused with its place, and nothing is lost', async () => {
    const transcript = open(new InMemoryCheckpointStorage()) as Transcript;
    await transcript.append([{ id: 1 }]);
    await expect(transcript.append([{ id: 2 }, { run: () => 1 }])).rejects.toThrow(
      'Cannot save $[1].run: it is a function',
    );
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    await expect(transcript.append([cycle])).rejects.toThrow('a cycle');
    expect(await transcript.load()).toEqual([{ id: 1 }]);
  });

  test('a session of another adapter, of another version, or of nobody is refused', async () => {
    const storage = new InMemoryCheckpointStorage();
    const engine = openAdapterEngine({ storage });
    await open(storage).append([item(1)]);
    const other = new Transcript(engine, { adapter: 'other', sessionId: SESSION });
    await expect(other.append([1])).rejects.toThrow('holds a transcript of "test", not one of "other"');
    const manager = new CheckpointManager({ storage });
    await manager.save({ count: 1 }, { sessionId: 'mine' });
    const mine = new Transcript(engine, { adapter: 'test', sessionId: 'mine' as SessionId });
    await expect(mine.load()).rejects.toThrow('Session "mine" holds a state that is no transcript');
    await manager.save({ transcript: 'test', version: 2, items: [], bodies: [] }, { sessionId: 'newer' });
    const newer = new Transcript(engine, { adapter: 'test', sessionId: 'newer' as SessionId });
    await expect(newer.load()).rejects.toThrow('has version 2, and this program knows version 1');
    await manager.save({ transcript: 'test', version: 1, items: [1], bodies: [] }, { sessionId: 'edited' });
    const edited = new Transcript(engine, { adapter: 'test', sessionId: 'edited' as SessionId });
    await expect(edited.append([2])).rejects.toMatchObject({ code: 'CORRUPT' });
  });
});

test('a commit that fails, or whose reply is lost, leaves the transcript whole', async () => {
  const inner = new InMemoryCheckpointStorage();
  const faults = ['fails', 'loses_reply', 'loses_request'] as const;
  const commits = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [2 * n + 2, faults[n % 3] ?? 'fails']));
  const transcript = open(faultyStorage(inner, { commits }));
  for (let id = 0; id < 40; id++) {
    const append = () => transcript.append([item(id)], { operationId: `op-${id}` });
    await append().catch(append);
  }
  expect(await open(inner).load()).toEqual(items(0, 40));
  const manager = new CheckpointManager({ storage: inner });
  expect((await manager.verify()).findings).toEqual([]);
});

test('whoever opens an adapter for every request shares what is open, unless it has settings of its own', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const [first, again] = [{ manager }, { manager }].map((options) => Transcripts.of<Item>(options, 'test'));
  expect(again).toBe(first);
  expect(Transcripts.of({ manager }, 'other')).not.toBe(first);
  const keepers = manager.engine.keepers.size;
  for (let at = 0; at < 50; at++)
    await Transcripts.of<Item>({ manager }, 'test')
      .open(SESSION)
      .append([item(at)]);
  expect(manager.engine.keepers.size).toBe(keepers);
  const bare = Transcripts.of<Item>({ storage }, 'test');
  expect(Transcripts.of({ storage }, 'test')).toBe(bare);
  expect(Transcripts.of({ storage, secrets: {} }, 'test')).not.toBe(bare);
  expect(await bare.open(SESSION).load(1)).toEqual([item(49)]);
});
