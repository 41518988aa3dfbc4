import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HumanMessage } from '@langchain/core/messages';
import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import {
  checkpointOf,
  contents,
  echoGraph,
  metadataOf,
  putValues,
  ROOT,
  threadConfig,
  tuples,
} from '../../../../test/support/langgraph.ts';
import { describeOn, LATER } from '../../../../test/support/later.ts';
import { STORAGES, temporaryFolder } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../../storage/sqlite/sqlite-storage.ts';
import { faultyStorage } from '../../../testing/faulty-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

const human = (content: string) => new HumanMessage({ content, id: content });

async function converse(saver: BaseCheckpointSaver, threadId: string, texts: readonly string[]): Promise<void> {
  for (const text of texts) await echoGraph(saver).invoke({ messages: [human(text)] }, threadConfig(threadId));
}

async function linesOf(saver: BaseCheckpointSaver, threadId: string): Promise<string[]> {
  const found = await tuples(saver, threadConfig(threadId));
  return found.map(({ checkpoint }) => contents((checkpoint.channel_values.messages as HumanMessage[]) ?? []).join());
}

/** A thread with a subgraph, so that it has two namespaces. */
function nestedGraph(checkpointer: BaseCheckpointSaver) {
  const State = Annotation.Root({ n: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }) });
  const child = new StateGraph(State)
    .addNode('first', () => ({ n: 10 }))
    .addNode('ask', () => ({ n: Number(interrupt('how many?')) }))
    .addEdge(START, 'first')
    .addEdge('first', 'ask')
    .addEdge('ask', END)
    .compile();
  return new StateGraph(State)
    .addNode('before', () => ({ n: 1 }))
    .addNode('child', child)
    .addEdge(START, 'before')
    .addEdge('before', 'child')
    .addEdge('child', END)
    .compile({ checkpointer });
}

describeOn(STORAGES)('threads on %s', (_, create) => {
  test('[langgraph.11] a deleted thread leaves no bytes, in any namespace, and others as they were', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    await saver.deleteThread('thread');
    await converse(saver, 'other', ['stays']);
    const before = await storage.stats();
    await converse(saver, 'thread', ['one', 'two']);
    await nestedGraph(saver).invoke({ n: 0 }, threadConfig('thread'));
    await saver.putWrites(threadConfig('thread', checkpointOf({}).id), [['early', 'write '.repeat(100)]], 'task');
    expect((await storage.stats()).sessions).toBeGreaterThan(before.sessions + 1);
    await saver.deleteThread('thread');

    const counts = await storage.stats();
    expect(counts).toEqual({
      ...counts,
      checkpoints: before.checkpoints,
      chunks: before.chunks,
      sessions: before.sessions,
      tombstones: 0,
    });
    expect(await saver.getTuple(ROOT)).toBeUndefined();
    expect(await linesOf(saver, 'other')).toContain('stays,echo 1');
    await converse(saver, 'thread', ['anew']);
    expect((await linesOf(saver, 'thread'))[0]).toBe('anew,echo 1');
    await storage.close();
  });

  test('[langgraph.11] what is not there is not copied', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    await converse(saver, 'thread', ['stays']);
    await expect(saver.copyThread('nobody', 'somebody')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('no thread "nobody"'),
    });
    await storage.close();
  });

  test('[langgraph.11] writes that are under way when a thread is deleted are deleted with it', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const config = await putValues(saver, ROOT, { a: 1 });
    const writes = [1, 2, 3].map((at) => saver.putWrites(config, [['a', `${at} `.repeat(3_000)]], `task ${at}`));
    await saver.deleteThread('thread');
    await Promise.all(writes);
    expect(await storage.stats()).toMatchObject({ chunks: 0, sessions: 0 });
    await storage.close();
  });

  test('[langgraph.11] a copy takes back what it wrote and nothing else, if somebody begins the target meanwhile', async () => {
    const { storage } = create();
    await converse(new SavestateSaver(storage), 'thread', ['one', 'two']);
    const other = new SavestateSaver(storage);
    const delay = (method: string, nth: number) =>
      method === 'commit' && nth === 3 ? converse(other, 'copy', ['theirs']) : undefined;
    const copying = new SavestateSaver(faultyStorage(storage, { delay }));
    await expect(copying.copyThread('thread', 'copy')).rejects.toMatchObject({ code: 'CONFLICT' });
    const fresh = new SavestateSaver(storage);
    expect(await linesOf(fresh, 'copy')).toEqual(await linesOf(other, 'copy'));
    expect((await linesOf(fresh, 'copy'))[0]).toMatch(/^theirs,echo \d$/);
    expect((await new CheckpointManager({ storage }).verify()).findings).toEqual([]);
  });

  test('[langgraph.11] a copied thread has all checkpoints, writes and branches, and goes its own way', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    await converse(saver, 'thread', ['one', 'two']);
    const graph = echoGraph(saver);
    const old = (await tuples(saver))[3];
    await graph.updateState(old?.config ?? {}, { messages: [human('forked')] }, 'answer');
    const { chunks } = await storage.stats();
    await saver.copyThread('thread', 'copy');
    expect((await storage.stats()).chunks).toBe(chunks);

    const [source, copy] = await Promise.all([tuples(saver), tuples(saver, threadConfig('copy'))]);
    const plain = (found: typeof source) =>
      found.map(({ checkpoint, metadata, pendingWrites }) => ({ checkpoint, metadata, pendingWrites }));
    expect(plain(copy)).toEqual(plain(source));
    expect(copy[0]?.config.configurable?.thread_id).toBe('copy');
    await converse(saver, 'copy', ['three']);
    expect((await linesOf(saver, 'copy'))[0]).toMatch(/three,echo \d$/);
    expect(await linesOf(saver, 'thread')).not.toContain('three');
    await expect(saver.copyThread('thread', 'copy')).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(saver.copyThread('thread', 'thread')).rejects.toMatchObject({ code: 'INVALID_INPUT' });

    await saver.deleteThread('thread');
    expect((await linesOf(saver, 'copy'))[0]).toMatch(/three,echo \d$/);
    const manager = new CheckpointManager({ storage });
    expect((await manager.verify()).findings).toEqual([]);
    await storage.close();
  });
});

describeOn(STORAGES)('[langgraph.8] on %s a checkpoint that is put again', (_, create) => {
  test('by a run that ends where it began counts from then on, and keeps its parent', async () => {
    const saver = new SavestateSaver({ storage: create().storage, onConflict: 'error' });
    const graph = nestedGraph(saver);
    const config = { ...ROOT, durability: 'exit' as const };
    await graph.invoke({ n: 0 }, config);
    const first = await saver.getTuple(ROOT);
    for (let time = 0; time < 3; time++) await graph.invoke(null, config);
    const again = await saver.getTuple(ROOT);
    expect(again?.config).toEqual(first?.config);
    expect(again?.parentConfig).toEqual(first?.parentConfig);
    expect(again?.checkpoint.ts).not.toBe(first?.checkpoint.ts);
    expect((await saver.getTuple(first?.config ?? {}))?.checkpoint).toEqual(again?.checkpoint);
    const ids = (await tuples(saver)).map(({ checkpoint }) => checkpoint.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect((await graph.getState(ROOT)).tasks[0]?.interrupts).toHaveLength(1);
  });

  test('with the same content is stored once, with another beside the first', async () => {
    const storage = create().storage;
    const saver = new SavestateSaver(storage);
    const root = await putValues(saver, ROOT, { n: 0 });
    const checkpoint = checkpointOf({ n: 1 });
    const config = await saver.put(root, checkpoint, metadataOf(), { n: 1 });
    await new SavestateSaver(storage).put(root, checkpoint, metadataOf(), { n: 1 });
    expect((await storage.stats()).checkpoints).toBe(2);
    await saver.put(root, { ...checkpoint, channel_values: { n: 2 } }, metadataOf(), { n: 1 });
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual({ n: 2 });
    expect((await saver.getTuple(config))?.parentConfig).toEqual(root);
    expect(await tuples(saver)).toHaveLength(2);
    await saver.copyThread('thread', 'copy');
    expect((await tuples(saver, threadConfig('copy'))).map((one) => one.checkpoint.channel_values)).toEqual([
      { n: 2 },
      { n: 0 },
    ]);
  });

  test('as the first one of its thread, by the same saver or another, is stored once', async () => {
    const { storage } = create();
    const [saver, other] = [new SavestateSaver(storage), new SavestateSaver(storage)];
    const checkpoint = checkpointOf({ n: 1 });
    for (const one of [saver, saver, other]) await one.put(ROOT, checkpoint, metadataOf('input', -1), { n: 1 });
    expect((await storage.stats()).checkpoints).toBe(1);
    expect(await tuples(other)).toHaveLength(1);
  });

  test('after it was deleted is stored again', async () => {
    const storage = create().storage;
    const saver = new SavestateSaver(storage);
    const root = await putValues(saver, ROOT, { n: 0 });
    const checkpoint = checkpointOf({ n: 1 });
    const config = await saver.put(root, checkpoint, metadataOf(), { n: 1 });
    await putValues(saver, config, { n: 2 });
    const manager = new CheckpointManager({ storage });
    const found = (await manager.list({ sessionId: 'lg/thread' })).checkpoints[1];
    await manager.delete(found?.id ?? '');
    expect(await saver.getTuple(config)).toBeUndefined();
    await saver.put(root, checkpoint, metadataOf(), { n: 1 });
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual({ n: 1 });
  });
});

describeOn(STORAGES)('[langgraph.9] on %s lists', (_, create) => {
  test('are in the order of ids, newest first, whatever order they were put in', async () => {
    const saver = new SavestateSaver(create().storage);
    const checkpoints = Array.from({ length: 9 }, (_, n) => checkpointOf({ n }));
    for (const at of [4, 0, 8, 2, 6, 1, 7, 3, 5])
      await saver.put(ROOT, checkpoints[at] ?? checkpointOf({}), metadataOf('loop', at), { n: 1 });
    const found = await tuples(saver);
    expect(found.map(({ metadata }) => metadata?.step)).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0]);
    expect((await saver.getTuple(ROOT))?.checkpoint.channel_values).toEqual({ n: 8 });
    const before = { configurable: { checkpoint_id: checkpoints[5]?.id } };
    expect((await tuples(saver, ROOT, { before, limit: 2 })).map(({ metadata }) => metadata?.step)).toEqual([4, 3]);
    expect((await tuples(saver, ROOT, { filter: { step: 3 } })).map(({ metadata }) => metadata?.step)).toEqual([3]);
    expect(await tuples(saver, threadConfig('thread', checkpoints[2]?.id))).toHaveLength(1);
    expect(await tuples(saver, ROOT, { limit: 0 })).toEqual([]);
    expect(await tuples(saver, ROOT, { limit: Number.POSITIVE_INFINITY })).toHaveLength(9);
    for (const absent of [null, { limit: null, before: null, filter: null }])
      expect(await tuples(saver, ROOT, absent as never)).toHaveLength(9);
    expect(await tuples(saver, ROOT, { filter: { step: 3, source: undefined } })).toHaveLength(1);
    for (const limit of [Number.NaN, 1.5, -1])
      await expect(tuples(saver, ROOT, { limit })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('go on over many pages, of one thread with all its namespaces, and of all threads', LATER, async () => {
    const saver = new SavestateSaver(create().storage);
    for (let n = 0; n < 120; n++)
      await saver.put(
        { configurable: { thread_id: `t${n % 2}`, checkpoint_ns: n % 3 === 0 ? 'child' : '' } },
        checkpointOf({}),
        metadataOf('loop', n),
        {},
      );
    const steps = async (configurable: object) =>
      (await tuples(saver, { configurable })).map(({ metadata }) => metadata?.step ?? -1);
    const all = Array.from({ length: 120 }, (_, n) => 119 - n);
    expect(await steps({})).toEqual(all);
    expect(await steps({ thread_id: 't1' })).toEqual(all.filter((n) => n % 2 === 1));
    expect(await steps({ checkpoint_ns: 'child' })).toEqual(all.filter((n) => n % 3 === 0));
  });

  test('can be had without states', async () => {
    const storage = create().storage;
    const saver = new SavestateSaver(storage);
    await converse(saver, 'thread', ['one']);
    const summaries = [];
    storage.readReachable = () => Promise.reject(new Error('no states were asked for'));
    for await (const summary of saver.listMetadata(ROOT, { limit: 3 })) summaries.push(summary);
    expect(summaries.map(({ metadata }) => metadata?.step)).toEqual([2, 1, 0]);
    expect(summaries[0]).toMatchObject({
      branch: 'main',
      id: expect.stringMatching(/^chk_/),
      savedAt: expect.any(Date),
    });
    expect(summaries[0]?.parentConfig).toEqual(summaries[1]?.config);
  });
});

describeOn(STORAGES)('[langgraph.3] on %s the latest checkpoint', (_, create) => {
  test('is a child of the one before, also if the clock that named it was slow', async () => {
    const saver = new SavestateSaver(create().storage);
    const early = checkpointOf({ n: 'child' });
    const parent = await putValues(saver, ROOT, { n: 'parent' });
    const child = await saver.put(parent, early, metadataOf(), { n: 1 });
    expect((await saver.getTuple(ROOT))?.checkpoint.id).toBe(early.id);
    expect((await saver.getTuple(child))?.parentConfig).toEqual(parent);
    const next = await putValues(saver, child, { n: 'next' });
    expect((await saver.getTuple(ROOT))?.config).toEqual(next);
  });

  test('[langgraph.2] may have an id of any form', async () => {
    const storage = create().storage;
    const saver = new SavestateSaver(storage);
    let config = ROOT;
    for (const id of ['b', 'a', 'ü/%\n', 'x'.repeat(2000)]) {
      config = await saver.put(config, checkpointOf({ id }, { id }), metadataOf(), { id: 1 });
      await saver.putWrites(config, [['id', id]], 'task');
      const found = await new SavestateSaver(storage).getTuple(config);
      expect(found?.checkpoint).toMatchObject({ id, channel_values: { id } });
      expect(found?.pendingWrites).toEqual([['task', 'id', id]]);
    }
    expect((await saver.getTuple(ROOT))?.config).toEqual(config);
    expect(await tuples(saver)).toHaveLength(4);
  });

  test('[langgraph.13] stays what LangGraph saved last, whatever others save into its session', async () => {
    const storage = create().storage;
    const saver = new SavestateSaver(storage);
    const config = await putValues(saver, ROOT, { n: 1 });
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('lg/thread');
    for (let n = 0; n < 60; n++) await session.save({ foreign: n });
    expect((await saver.getTuple(ROOT))?.config).toEqual(config);
    expect(await tuples(saver)).toHaveLength(1);
    await putValues(saver, config, { n: 2 });
    expect((await saver.getTuple(ROOT))?.checkpoint.channel_values).toEqual({ n: 2 });
  });
});

test('[langgraph.11] no text of a deleted thread is in the SQLite file any more', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'threads.db');
  const storage = new SqliteCheckpointStorage({ path });
  const saver = new SavestateSaver(storage);
  const secrets = ['message', 'write', 'early', 'thread'].map((place) => `${place}-${randomUUID()}`);
  const [message = '', write = '', early = '', threadId = ''] = secrets;
  const found = () => {
    const bytes = Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));
    return secrets.filter((secret) => bytes.includes(secret));
  };
  await converse(saver, 'other', ['stays']);
  await echoGraph(saver).invoke({ messages: [human(message)] }, threadConfig(threadId));
  const [latest] = await tuples(saver, threadConfig(threadId));
  await saver.putWrites(latest?.config ?? {}, [['late', write]], 'task');
  await saver.putWrites(threadConfig(threadId, checkpointOf({}).id), [['early', early]], 'task');
  expect(found()).toEqual(secrets);
  await saver.deleteThread(threadId);
  await storage.close();
  expect(found()).toEqual([]);
});
