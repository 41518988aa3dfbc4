import { chmodSync, copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { HumanMessage } from '@langchain/core/messages';
import { Command } from '@langchain/langgraph';
import { type BaseCheckpointSaver, type CheckpointTuple, MemorySaver } from '@langchain/langgraph-checkpoint';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  approvalGraph,
  deltaGraph,
  type Graph,
  nestedGraph,
  talkGraph,
  writeThreads,
} from '../../../../test/golden/langgraph/graphs.mjs';
import { contents, tuples } from '../../../../test/support/langgraph.ts';
import { describeOn, LATER } from '../../../../test/support/later.ts';
import { LIBRARY, loadPostgresSaver, readDescribed, SQLITE_FILE } from '../../../../test/support/official-savers.ts';
import { adminClient, freshSchema, postgresUrl } from '../../../../test/support/postgres.ts';
import { STORAGES, temporaryFolder } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../../storage/sqlite/sqlite-storage.ts';
import { faultyStorage } from '../../../testing/faulty-storage.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';
import { openPostgresSaverDatabase } from './postgres-saver-database.ts';
import { openSqliteSaverDatabase } from './sqlite-saver-database.ts';
import { importThreads } from './thread-import.ts';
import type { ThreadSource } from './thread-source.ts';

const thread = (id: string) => ({ configurable: { thread_id: id } });

async function openSqlite(): Promise<ThreadSource> {
  const path = join(temporaryFolder(), 'official.db');
  copyFileSync(SQLITE_FILE, path);
  return openSqliteSaverDatabase(path);
}

async function openPostgres(): Promise<ThreadSource> {
  const schema = await loadPostgresSaver();
  const source = await openPostgresSaverDatabase({ connectionString: postgresUrl(), schema });
  onTestFinished(() => source.close());
  return source;
}

const SOURCES = [
  ['sqlite-saver', openSqlite],
  ['postgres-saver', openPostgres],
] as const;

/** Imports a golden database into a fresh storage. */
async function importGolden(open: () => Promise<ThreadSource>, storage = new InMemoryCheckpointStorage()) {
  const source = await open();
  const saver = new SavestateSaver(storage);
  const report = await importThreads(source, saver);
  return { source, saver, storage, report };
}

const idOf = ({ config }: Pick<CheckpointTuple, 'config'>): string => config.configurable?.checkpoint_id;

/** By task and number, as the databases have them. */
const byTask = (tuple: CheckpointTuple | undefined) =>
  (tuple?.pendingWrites ?? []).toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));

const isReadable = ({ checkpoint }: CheckpointTuple) => typeof checkpoint !== 'string';

async function historyOf(graph: Graph, threadId: string) {
  const history: [string, unknown[]][] = [];
  for await (const { config, values } of graph.getStateHistory(thread(threadId)))
    history.push([config.configurable?.checkpoint_id, contents(values.messages ?? [])]);
  return history;
}

describe.each(SOURCES)('[langgraph.18] a database of the official %s', (name, open) => {
  test('comes over with the states, metadata, parents and writes that it gives itself', async () => {
    const { saver, report } = await importGolden(open);
    const described = await readDescribed(name);
    const expected = described.tuples.filter(isReadable);
    expect(report.checkpoints).toBe(expected.length);
    for (const official of expected) {
      const ours = await saver.getTuple(official.config);
      expect(ours?.config).toEqual(official.config);
      expect(ours?.parentConfig).toEqual(official.parentConfig);
      expect(ours?.metadata).toEqual(official.metadata);
      const { thread_id: threadId } = official.config.configurable ?? {};
      if (threadId === 'faulty' || threadId === 'stray') continue;
      expect(ours?.checkpoint).toEqual(official.checkpoint);
      expect(byTask(ours)).toEqual(byTask(official));
    }
    const listed = await tuples(saver, {});
    expect(listed.map(idOf)).toEqual(expected.map(idOf).toSorted().toReversed());
  });

  test('has its forks as branches', async () => {
    const { storage } = await importGolden(open);
    const manager = new CheckpointManager({ storage });
    expect(await manager.branches('lg/talk')).toHaveLength(3);
    expect(await manager.branches('lg/approval')).toHaveLength(1);
    expect((await manager.verify()).status).toBe('clean');
  });

  test('gives graphs the same history, also of delta channels', async () => {
    const { saver } = await importGolden(open);
    const { histories } = await readDescribed(name);
    expect(await historyOf(talkGraph(LIBRARY, saver), 'talk')).toEqual(histories.talk);
    const delta = await historyOf(deltaGraph(LIBRARY, saver), 'delta');
    expect(delta.map(([id]) => id)).toEqual(histories.delta?.map(([id]) => id));
    // The official savers show the fork's message in the other branch too.
    expect(delta.map(([, found]) => found.join())).toEqual([
      'one,answer 1,other',
      'one,answer 1,two,answer 3',
      'one,answer 1,two',
      'one,answer 1',
      'one,answer 1',
      'one',
      '',
    ]);
  });

  test('is gone on from by graphs: a turn, an answer to a person, also inside a subgraph', async () => {
    const { saver } = await importGolden(open);
    const { messages } = await talkGraph(LIBRARY, saver).invoke(
      { messages: [new HumanMessage('more')] },
      thread('talk'),
    );
    expect(contents(messages).slice(-2)).toEqual(['more', 'answer 6']);

    const approval = approvalGraph(LIBRARY, saver);
    const { tasks } = await approval.getState(thread('approval'));
    expect(tasks[0]?.interrupts[0]?.value).toEqual({ question: 'May I delete the files?' });
    const answered = await approval.invoke(new Command({ resume: 'yes' }), thread('approval'));
    expect(answered).toEqual({ request: 'delete the files', decision: 'yes', done: 'delete the files: yes' });

    const nested = nestedGraph(LIBRARY, saver);
    const snapshot = await nested.getState(thread('nested'), { subgraphs: true });
    expect(snapshot.tasks[0]?.state).toMatchObject({ values: { request: 'send the letter' } });
    const reported = await nested.invoke(new Command({ resume: 'no' }), thread('nested'));
    expect(reported).toMatchObject({ done: 'send the letter: no', note: 'reported send the letter: no' });
  });

  test('[langgraph.19] a second import finds everything there, and stores nothing', async () => {
    const { source, saver, storage, report } = await importGolden(open);
    const before = await storage.stats();
    const again = await importThreads(source, saver);
    expect(again).toMatchObject({ checkpoints: 0, writes: 0, present: report.checkpoints });
    expect(again.skipped).toEqual(report.skipped);
    expect(await storage.stats()).toEqual(before);
  });

  test('[langgraph.19] an import that was stopped goes on where it was, wherever that is', async () => {
    const { saver: whole } = await importGolden(open);
    const storage = new InMemoryCheckpointStorage();
    const source = await open();
    for (let runs = 0; ; runs++) {
      const controller = new AbortController();
      let fresh = 0;
      const onProgress = () => {
        if (++fresh === 3 * (runs + 1)) controller.abort();
      };
      const saver = new SavestateSaver(storage);
      const done = await importThreads(source, saver, { onProgress, signal: controller.signal }).then(
        () => true,
        (error: Error) => error.name !== 'AbortError',
      );
      if (done) break;
    }
    const saver = new SavestateSaver(storage);
    for (const tuple of await tuples(whole, {})) {
      const resumed = await saver.getTuple(tuple.config);
      expect(resumed?.checkpoint).toEqual(tuple.checkpoint);
      expect(byTask(resumed)).toEqual(byTask(tuple));
    }
    const histories = await Promise.all([whole, saver].map((one) => historyOf(deltaGraph(LIBRARY, one), 'delta')));
    expect(histories[0]).toEqual(histories[1]);
  });

  test('[langgraph.21] what the official saver lost is named, and the rest comes over', async () => {
    const { saver, report } = await importGolden(open);
    const stray = report.skipped.filter(({ threadId }) => threadId === 'stray');
    expect(stray).toMatchObject([
      {
        checkpointId: '1f0c3000-0000-6000-8000-000000000002',
        reason: expect.stringContaining('1 write was left out'),
      },
    ]);
    const [kept] = await tuples(saver, thread('stray'));
    expect(kept?.pendingWrites).toEqual([
      ['task-1', 'bytes', new Uint8Array([0, 255, 7])],
      ['task-1', 'text', 'seven'],
    ]);
    const faulty = [...report.skipped, ...report.lossy].filter(({ threadId }) => threadId === 'faulty');
    expect(faulty.map(({ reason }) => reason).join('\n')).toContain('stored a placeholder instead');
    const text = JSON.stringify(await tuples(saver, thread('faulty')));
    expect(text).not.toContain('unable to serialize');
    expect(text).toContain('"before":"first"');
  });

  test('[langgraph.19] some threads only; a name that is not there is an error', async () => {
    const source = await open();
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const report = await importThreads(source, saver, { threads: ['approval', 'nested'] });
    expect(report).toMatchObject({ threads: 2, checkpoints: 6 });
    expect(new Set((await tuples(saver, {})).map(({ config }) => config.configurable?.thread_id))).toEqual(
      new Set(['approval', 'nested']),
    );
    await expect(importThreads(source, saver, { threads: ['approval', 'none'] })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      details: { threadId: 'none' },
    });
  });

  test('[langgraph.19] progress is told after every checkpoint', async () => {
    const source = await open();
    const seen: number[] = [];
    await importThreads(source, new SavestateSaver(new InMemoryCheckpointStorage()), {
      onProgress: ({ checkpointsDone, checkpoints }) => seen.push(checkpointsDone / checkpoints),
    });
    expect(seen).toHaveLength(37);
    expect(seen.at(-1)).toBe(1);
  });
});

describeOn(STORAGES)('[langgraph.18] on %s', (_, create) => {
  test('threads come over', async () => {
    const { storage, reopen = () => storage } = create();
    const source = await openSqlite();
    await importThreads(source, new SavestateSaver({ storage, onConflict: 'error' }));
    await source.close();
    const other = reopen();
    const { histories } = await readDescribed('sqlite-saver');
    expect(await historyOf(talkGraph(LIBRARY, new SavestateSaver(other)), 'talk')).toEqual(histories.talk);
    await storage.close();
    await other.close();
  });
});

test('[langgraph.18] threads of a saver that is at hand come over through its public methods', async () => {
  const official: BaseCheckpointSaver = new MemorySaver();
  await writeThreads(LIBRARY, official);
  const saver = new SavestateSaver(new InMemoryCheckpointStorage());
  const report = await importThreads(official, saver, { threads: ['talk', 'approval', 'nested', 'delta', 'faulty'] });
  expect(report.skipped.map(({ threadId }) => threadId)).toContain('faulty');
  for await (const tuple of official.list(thread('talk'))) {
    const ours = await saver.getTuple(tuple.config);
    expect(ours?.checkpoint).toEqual(tuple.checkpoint);
    expect(byTask(ours)).toEqual(byTask(tuple));
  }
  const answered = await approvalGraph(LIBRARY, saver).invoke(new Command({ resume: 'yes' }), thread('approval'));
  expect(answered.done).toBe('delete the files: yes');
});

test.each(['fails', 'loses_reply'] as const)(
  '[langgraph.19] an import that ends because a commit %s, at any commit, is completed by the next',
  LATER,
  async (fault) => {
    const { saver: whole } = await importGolden(openSqlite);
    const expected = (await tuples(whole, {})).filter(({ config }) => config.configurable?.thread_id === 'delta');
    const history = await historyOf(deltaGraph(LIBRARY, whole), 'delta');
    const source = await openSqlite();
    for (let nth = 1; ; nth++) {
      const storage = new InMemoryCheckpointStorage();
      const failing = new SavestateSaver(faultyStorage(storage, { commits: { [nth]: fault } }));
      const outcome = await importThreads(source, failing, { threads: ['delta'] }).catch((error: unknown) => error);
      const saver = new SavestateSaver(storage);
      const report = await importThreads(source, saver, { threads: ['delta'] });
      expect(report.skipped).toEqual([]);
      for (const tuple of expected) {
        const found = await saver.getTuple(tuple.config);
        expect(found?.checkpoint).toEqual(tuple.checkpoint);
        expect(byTask(found)).toEqual(byTask(tuple));
      }
      expect(await historyOf(deltaGraph(LIBRARY, saver), 'delta')).toEqual(history);
      if (!(outcome instanceof Error) && report.checkpoints === 0 && nth > 20) break;
    }
    await source.close();
  },
);

test('[langgraph.21] values that the PostgresSaver may have taken from another fork are named', async () => {
  const { report } = await importGolden(openPostgres);
  const { histories } = await readDescribed('postgres-saver');
  const doubted = report.lossy.filter(({ threadId, channel }) => threadId === 'talk' && channel === 'messages');
  const wrong = histories.talk?.filter(([, found]) => found.includes('left')).map(([id]) => id) ?? [];
  // The first fork is right, and what goes on from the second has values of its own again, built on the wrong one.
  expect(wrong).toEqual(expect.arrayContaining(doubted.map(({ checkpointId }) => checkpointId)));
  expect(doubted.length).toBeGreaterThan(0);
  expect(doubted[0]?.reason).toContain('keeps one value only');
});

describe('[langgraph.20] the source', () => {
  test('is the same to the byte afterwards, and nothing is beside it', async () => {
    const path = join(temporaryFolder(), 'official.db');
    copyFileSync(SQLITE_FILE, path);
    const source = openSqliteSaverDatabase(path);
    await importThreads(source, new SavestateSaver(new InMemoryCheckpointStorage()));
    await source.close();
    await source.close();
    expect(readFileSync(path).equals(readFileSync(SQLITE_FILE))).toBe(true);
    expect(readdirSync(dirname(path))).toEqual(['official.db']);
  });

  test('that another process has open is read with what it wrote last', async () => {
    const path = join(temporaryFolder(), 'official.db');
    copyFileSync(SQLITE_FILE, path);
    const { openDatabase } = await import('../../../storage/database/sqlite-driver.ts');
    const writer = openDatabase(path);
    writer.exec("UPDATE checkpoints SET thread_id = 'renamed' WHERE thread_id = 'stray'");
    const source = openSqliteSaverDatabase(path);
    expect((await source.listThreads()).map(({ threadId }) => threadId)).toContain('renamed');
    await source.close();
    writer.close();
  });

  test('that begins to be written to while it is read is not trusted further', async () => {
    const path = join(temporaryFolder(), 'official.db');
    copyFileSync(SQLITE_FILE, path);
    const source = openSqliteSaverDatabase(path);
    const { openDatabase } = await import('../../../storage/database/sqlite-driver.ts');
    const writer = openDatabase(path);
    writer.exec("UPDATE checkpoints SET thread_id = 'renamed' WHERE thread_id = 'stray'");
    await expect(source.listThreads()).rejects.toMatchObject({ code: 'STORAGE' });
    await source.close();
    writer.close();
  });

  test('[langgraph.20] that cannot be read is named with what is there instead, and what to do', async () => {
    const folder = temporaryFolder();
    const cut = join(folder, 'cut.db');
    writeFileSync(cut, readFileSync(SQLITE_FILE).subarray(0, 20_000));
    const closed = join(folder, 'closed.db');
    copyFileSync(SQLITE_FILE, closed);
    chmodSync(closed, 0);
    const refusal = async (path: string): Promise<unknown> => {
      try {
        const source = openSqliteSaverDatabase(path);
        onTestFinished(() => source.close());
        return await importThreads(source, new SavestateSaver(new InMemoryCheckpointStorage()));
      } catch (error) {
        return error;
      }
    };
    const says = (code: string, text: string) => ({ code, message: expect.stringContaining(text) });
    expect(await refusal(folder)).toMatchObject(says('STORAGE', 'it is a folder; name the file in it'));
    expect(await refusal(join(folder, 'none.db'))).toMatchObject(says('STORAGE', 'no such file; check the path'));
    expect(await refusal(join(closed, 'x.db'))).toMatchObject(says('STORAGE', 'cannot be opened'));
    expect(await refusal(cut)).toMatchObject(says('CORRUPT', 'is damaged or cut short'));
    // Nothing is closed to the administrator.
    if (process.getuid?.() !== 0) expect(await refusal(closed)).toMatchObject(says('STORAGE', 'may not be read'));
  });

  test('that is missing, no database, damaged or another program’s is refused', async () => {
    const folder = temporaryFolder();
    const path = (name: string) => join(folder, name);
    writeFileSync(path('text.db'), 'no database at all, only text that goes on for a while'.repeat(200));
    await new SqliteCheckpointStorage({ path: path('ours.db') }).close();
    const damaged = readFileSync(SQLITE_FILE);
    damaged.fill(0xaa, 4096);
    writeFileSync(path('damaged.db'), damaged);
    expect(() => openSqliteSaverDatabase(path('none.db'))).toThrow(expect.objectContaining({ code: 'STORAGE' }));
    expect(() => openSqliteSaverDatabase(path('text.db'))).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
    expect(() => openSqliteSaverDatabase(path('ours.db'))).toThrow(
      expect.objectContaining({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('has no table "checkpoints"'),
      }),
    );
    const source = openSqliteSaverDatabase(path('damaged.db'));
    const storage = new InMemoryCheckpointStorage();
    await expect(importThreads(source, new SavestateSaver(storage))).rejects.toMatchObject({ code: 'CORRUPT' });
    expect((await storage.stats()).checkpoints).toBe(0);
    await source.close();
    // Beside it may lie the empty log of a closed file, which SQLite removes later.
    const files = readdirSync(folder).filter((name) => !name.startsWith('ours.db-'));
    expect(files.sort()).toEqual(['damaged.db', 'ours.db', 'text.db']);
  });

  test('in PostgreSQL cannot be written to, and must be there', async () => {
    const connectionString = postgresUrl();
    await expect(openPostgresSaverDatabase({ connectionString, schema: freshSchema() })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('has no table "checkpoints"'),
    });
    const nowhere = 'postgres://nobody@127.0.0.1:1/none';
    await expect(openPostgresSaverDatabase({ connectionString: nowhere })).rejects.toMatchObject({ code: 'STORAGE' });
    const client = await adminClient();
    const schema = await loadPostgresSaver();
    const count = async () => (await client.query(`select count(*)::int as n from ${schema}.checkpoints`)).rows[0].n;
    const source = await openPostgresSaverDatabase({ connectionString, schema });
    await importThreads(source, new SavestateSaver(new InMemoryCheckpointStorage()));
    await source.close();
    expect(await count()).toBe(37);
  });
});
