import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  deleteSession,
  forkSession,
  getSessionInfo,
  getSessionMessages,
  getSubagentMessages,
  InMemorySessionStore,
  importSessionToStore,
  listSessions,
  listSubagents,
  renameSession,
  type SessionStoreEntry,
  tagSession,
} from '@anthropic-ai/claude-agent-sdk';
import { describe, expect, onTestFinished, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES, temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/index.ts';
import { SavestateSessionStore } from './index.ts';

const KEY = { projectKey: 'shop', sessionId: 'one' };
const SUB = { ...KEY, subpath: 'subagents/agent-7' };

const entry = (n: number, more: object = {}): SessionStoreEntry => ({
  type: n % 2 === 0 ? 'user' : 'assistant',
  uuid: `uuid-${n}`,
  parentUuid: n === 0 ? null : `uuid-${n - 1}`,
  timestamp: new Date(1_790_000_000_000 + n).toISOString(),
  message: { role: 'user', content: `what was said ${n} `.repeat(30) },
  ...more,
});
const entries = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => entry(from + at));

describeOn(STORAGES)('the contracts of the SDK, in %s', (_, create) => {
  const open = () => new SavestateSessionStore(create().storage);

  test('1: what is loaded is what was appended', async () => {
    const store = open();
    const odd = { type: 'x', list: [1, null, { deep: [''] }], zero: 0, no: false, text: 'ü 漢 \u0000 "' };
    await store.append(KEY, [entry(0), odd]);
    expect(await store.load(KEY)).toEqual([entry(0), odd]);
  });

  test('2: a transcript that was never written is null', async () => {
    expect(await open().load(KEY)).toBeNull();
    expect(await open().load(SUB)).toBeNull();
  });

  test('3: entries stay in the order of the calls, also of those that are not waited for', async () => {
    const store = open();
    await Promise.all([0, 3, 6].map((from) => store.append(KEY, entries(from, from + 3))));
    expect(await store.load(KEY)).toEqual(entries(0, 9));
  });

  test('4: appending nothing makes nothing', async () => {
    const store = open();
    await store.append(KEY, []);
    expect(await store.load(KEY)).toBeNull();
    expect(await store.listSessions('shop')).toEqual([]);
  });

  test('5: a subagent has a transcript of its own', async () => {
    const store = open();
    await store.append(KEY, [entry(0)]);
    await store.append(SUB, [entry(5)]);
    expect(await store.load(KEY)).toEqual([entry(0)]);
    expect(await store.load(SUB)).toEqual([entry(5)]);
  });

  test('6: projects are apart, whatever their names', async () => {
    const store = open();
    for (const projectKey of ['a', 'a/one', 'a%002fone', 'é #']) {
      await store.append({ projectKey, sessionId: 'one' }, [{ type: 'user', in: projectKey }]);
      expect((await store.listSessions(projectKey)).map(({ sessionId }) => sessionId)).toEqual(['one']);
    }
    expect(await store.load({ projectKey: 'a', sessionId: 'one' })).toEqual([{ type: 'user', in: 'a' }]);
  });

  test('7: sessions are listed with the time of their last change', async () => {
    const store = open();
    const before = Date.now();
    await store.append(KEY, [entry(0)]);
    await store.append({ ...KEY, sessionId: 'two' }, [entry(0)]);
    const listed = await store.listSessions('shop');
    expect(listed.map(({ sessionId }) => sessionId).sort()).toEqual(['one', 'two']);
    for (const { mtime } of listed) expect(mtime >= before && Number.isInteger(mtime)).toBe(true);
    expect(await store.listSessions('none')).toEqual([]);
  });

  test('8: a session that has subagents only is not listed', async () => {
    const store = open();
    await store.append(SUB, [entry(0)]);
    expect(await store.listSessions('shop')).toEqual([]);
    expect(await store.listSessionSummaries('shop')).toEqual([]);
  });

  test('9: deleting a session takes it away, and one that is not there is no mistake', async () => {
    const store = open();
    await store.delete(KEY);
    await store.append(KEY, [entry(0)]);
    await store.delete(KEY);
    expect(await store.load(KEY)).toBeNull();
    expect(await store.listSessions('shop')).toEqual([]);
  });

  test('10: deleting a main transcript deletes those below it, and no other', async () => {
    const store = open();
    const other = { ...KEY, sessionId: 'one-more' };
    for (const key of [KEY, SUB, { ...KEY, subpath: 'b' }, other, { ...other, subpath: 'b' }])
      await store.append(key, [entry(0)]);
    await store.delete(KEY);
    expect(await store.listSubkeys(KEY)).toEqual([]);
    expect(await store.load(SUB)).toBeNull();
    expect(await store.load(other)).toEqual([entry(0)]);
    expect(await store.listSubkeys(other)).toEqual(['b']);
  });

  test('11: deleting a subagent leaves the rest', async () => {
    const store = open();
    for (const key of [KEY, SUB, { ...KEY, subpath: 'b' }]) await store.append(key, [entry(0)]);
    await store.delete(SUB);
    expect(await store.load(KEY)).toEqual([entry(0)]);
    expect(await store.listSubkeys(KEY)).toEqual(['b']);
  });

  test('12: the subpaths of a session are listed as they were given', async () => {
    const store = open();
    for (const subpath of ['subagents/agent-7', 'a', 'deep/er/x.y'])
      await store.append({ ...KEY, subpath }, [entry(0)]);
    expect((await store.listSubkeys(KEY)).sort()).toEqual(['a', 'deep/er/x.y', 'subagents/agent-7']);
  });

  test('13: the main transcript is no subpath', async () => {
    const store = open();
    await store.append(KEY, [entry(0)]);
    expect(await store.listSubkeys(KEY)).toEqual([]);
    expect(await store.listSubkeys({ ...KEY, sessionId: 'none' })).toEqual([]);
  });

  test('an entry is kept once, however often it arrives; one without uuid each time', async () => {
    const { storage, reopen } = create();
    const store = new SavestateSessionStore(storage);
    const title = { type: 'custom-title', customTitle: 'T' };
    await store.append(KEY, [...entries(0, 3), entry(1), title]);
    await store.append(KEY, [...entries(1, 5), title]);
    await store.append({ ...KEY, sessionId: 'null' }, [entry(0, { uuid: null }), entry(1, { uuid: null })]);
    expect(await store.load({ ...KEY, sessionId: 'null' })).toHaveLength(2);
    const other = new SavestateSessionStore(reopen?.() ?? storage);
    await Promise.all([other.append(KEY, entries(0, 8)), store.append(KEY, entries(3, 8))]);
    const loaded = (await store.load(KEY)) ?? [];
    expect(loaded.flatMap(({ uuid }) => uuid ?? [])).toEqual(entries(0, 8).map(({ uuid }) => uuid));
    expect(loaded.filter(({ type }) => type === 'custom-title')).toHaveLength(2);
    const { checkpoints } = await new CheckpointManager({ storage }).list({ sessionId: 'claude/shop/one' });
    expect(checkpoints.length).toBeLessThanOrEqual(4);
  });

  test('summaries are those that the SDK folds, also when stores race', async () => {
    const { storage, reopen } = create();
    const stores = [new SavestateSessionStore(storage), new SavestateSessionStore(reopen?.() ?? storage)];
    const oracle = new InMemorySessionStore();
    const batches = [
      [entry(0, { cwd: '/shop', gitBranch: 'main' })],
      ...[1, 2, 3, 4].map((n) => [entry(n)]),
      [{ type: 'tag', tag: 'done', sessionId: 'one' }],
    ];
    for (const batch of batches) await oracle.append(KEY, batch);
    await stores[0]?.append(KEY, batches[0] ?? []);
    await Promise.all(batches.slice(1).map((batch, at) => stores[at % 2]?.append(KEY, batch)));
    const [summary] = (await stores[1]?.listSessionSummaries('shop')) ?? [];
    const [expected] = await oracle.listSessionSummaries('shop');
    const { lastPrompt: _, ...folded } = (summary?.data ?? {}) as Record<string, unknown>;
    expect(expected?.data).toMatchObject(folded);
    expect(summary?.mtime).toBe((await stores[0]?.listSessions('shop'))?.[0]?.mtime);
  });
});

describe("the SDK's functions", () => {
  /** A folder of the SDK with one session of two messages, a title and a subagent. */
  function localSession() {
    const [home, dir, sessionId] = [temporaryFolder(), temporaryFolder(), randomUUID()];
    const before = process.env.CLAUDE_CONFIG_DIR;
    process.env.CLAUDE_CONFIG_DIR = home;
    onTestFinished(() => {
      if (before === undefined) delete process.env.CLAUDE_CONFIG_DIR;
      else process.env.CLAUDE_CONFIG_DIR = before;
    });
    const folder = join(home, 'projects', dir.replace(/[^a-zA-Z0-9]/g, '-'));
    mkdirSync(join(folder, sessionId, 'subagents'), { recursive: true });
    const said = (type: string, parentUuid: string | null, more: object = {}) => ({
      type,
      uuid: randomUUID(),
      parentUuid,
      sessionId,
      cwd: dir,
      timestamp: new Date().toISOString(),
      message: { role: type, content: `${type} says something of some length `.repeat(40) },
      ...more,
    });
    const first = said('user', null);
    const write = (path: string, lines: object[]) =>
      writeFileSync(join(folder, path), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    write(`${sessionId}.jsonl`, [
      first,
      said('assistant', first.uuid),
      { type: 'custom-title', customTitle: 'Shop', sessionId },
    ]);
    write(`${sessionId}/subagents/agent-x1.jsonl`, [said('user', null, { isSidechain: true, agentId: 'x1' })]);
    return { dir, sessionId };
  }

  test.each(STORAGES)('import, list, read, fork, rename, tag and delete, in %s', async (_, create) => {
    const { storage } = create();
    const sessionStore = new SavestateSessionStore(storage);
    const { dir, sessionId } = localSession();
    const options = { dir, sessionStore };
    await importSessionToStore(sessionId, sessionStore, { dir });
    await importSessionToStore(sessionId, sessionStore, { dir, batchSize: 1 });
    expect(await getSessionMessages(sessionId, options)).toHaveLength(2);
    expect(await listSubagents(sessionId, options)).toEqual(['x1']);
    expect(await getSubagentMessages(sessionId, 'x1', options)).toHaveLength(1);
    expect(await listSessions(options)).toMatchObject([{ sessionId, customTitle: 'Shop' }]);

    const { chunks } = await storage.stats();
    const fork = await forkSession(sessionId, options);
    expect(await getSessionMessages(fork.sessionId, options)).toHaveLength(2);
    expect((await storage.stats()).chunks - chunks).toBeLessThanOrEqual(6);
    await renameSession(fork.sessionId, 'Another', options);
    await tagSession(fork.sessionId, 'kept', options);
    expect(await getSessionInfo(fork.sessionId, options)).toMatchObject({ customTitle: 'Another', tag: 'kept' });
    expect(await listSessions(options)).toHaveLength(2);
    await deleteSession(sessionId, options);
    expect((await listSessions(options)).map((found) => found.sessionId)).toEqual([fork.sessionId]);
    const manager = new CheckpointManager({ storage });
    expect((await manager.verify()).findings).toEqual([]);
  });
});

test('a batch whose reply is lost is repeated without harm, as the SDK does it', async () => {
  const storage = new InMemoryCheckpointStorage();
  const faults = ['loses_reply', 'fails', 'loses_request'] as const;
  const commits = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [2 * n + 1, faults[n % 3] ?? 'fails']));
  const store = new SavestateSessionStore(faultyStorage(storage, { commits }));
  for (let n = 0; n < 20; n++) await store.append(KEY, [entry(n)]).catch(() => store.append(KEY, [entry(n)]));
  expect(await new SavestateSessionStore(storage).load(KEY)).toEqual(entries(0, 20));
});

test('a rewind of the session is what the SDK resumes from; a summary that an edit lost is made again', async () => {
  const storage = new InMemoryCheckpointStorage();
  const store = new SavestateSessionStore(storage);
  await store.append(KEY, entries(0, 2));
  await store.append(KEY, entries(2, 4));
  const manager = new CheckpointManager({ storage });
  const [, first] = (await manager.list({ sessionId: 'claude/shop/one' })).checkpoints;
  await manager.rewind(first?.id ?? '', { edit: [{ op: 'replace', path: '/items/1/type', value: 'system' }] });
  expect(await store.load(KEY)).toEqual([entry(0), entry(1, { type: 'system' })]);
  expect(await store.listSessionSummaries('shop')).toEqual([]);
  await store.append(KEY, [entry(9)]);
  expect(await store.listSessionSummaries('shop')).toMatchObject([{ sessionId: 'one', data: { isSidechain: false } }]);
});

test('bad input is refused, and nothing is saved', async () => {
  const store = new SavestateSessionStore(new InMemoryCheckpointStorage());
  await store.append(KEY, [entry(0)]);
  const refused: [key: unknown, entries: unknown, said: string][] = [
    [{ ...KEY, subpath: '' }, [entry(1)], 'The option "subpath" of a session key must not be empty.'],
    [{ projectKey: 'shop' }, [entry(1)], 'The option "sessionId" of a session key must be a string'],
    [{ ...KEY, sesionId: 'x' }, [entry(1)], 'did you mean "sessionId"?'],
    [KEY, [entry(1), 'text'], 'entry 1 is none. Nothing was saved.'],
    [KEY, { 0: entry(1) }, 'this is no list'],
    [KEY, [entry(1, { run: () => 1 })], 'Cannot save $[0].run: it is a function'],
    [{ ...KEY, projectKey: 'p'.repeat(600) }, [entry(1)], 'A session id must be a string of 1 to 512 characters'],
  ];
  for (const [key, given, said] of refused)
    await expect(store.append(key as typeof KEY, given as SessionStoreEntry[])).rejects.toThrow(said);
  expect(await store.load(KEY)).toEqual([entry(0)]);
  expect(() => new SavestateSessionStore('db.sqlite' as never)).toThrow('A storage, { storage, ... } or { manager');
});
