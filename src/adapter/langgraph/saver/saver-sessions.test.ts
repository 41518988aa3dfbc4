import { AIMessage, HumanMessage } from '@langchain/core/messages';
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { describe, expect, test } from 'vitest';
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
import { STORAGES } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../../testing/faulty-storage.ts';
import { langGraphClasses, SavestateSaver } from '../index.ts';

const human = (content: string) => new HumanMessage({ content, id: content });

const managerOf = (storage: ChunkStorage) =>
  new CheckpointManager({ storage, classes: langGraphClasses, secrets: 'store-secrets-in-plain-text' });

describeOn(STORAGES)('[langgraph.13] a thread is an ordinary session on %s', (_, create) => {
  test('it can be listed, compared, forked, verified, exported and imported', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const graph = echoGraph(saver);
    await graph.invoke({ messages: [human('one')] }, ROOT);
    await graph.invoke({ messages: [human('two')] }, ROOT);
    const manager = managerOf(storage);
    const { checkpoints } = await manager.list({ sessionId: 'lg/thread' });
    const [head, before] = checkpoints;
    expect(head).toMatchObject({ type: 'auto', trigger: 'loop', branch: 'main', sequence: checkpoints.length });
    expect(head?.metadata).toMatchObject({ source: 'loop', parents: {}, langgraph: { channels: ['messages'] } });
    expect((await manager.session('lg/thread')).head?.id).toBe(head?.id);

    const { patch } = await manager.compare(before?.id ?? '', head?.id ?? '');
    expect(patch.map(({ op, path }) => `${op} ${path}`)).toContain('add /channel_values/messages/3');
    expect(await manager.pathToRoot(head?.id ?? '')).toHaveLength(checkpoints.length);
    const fork = await manager.fork(before?.id ?? '', { edit: (state) => ({ ...(state as object), note: 'edited' }) });
    expect(await manager.load(fork.headId)).toMatchObject({
      note: 'edited',
      channel_values: { messages: [{ content: 'one' }, {}, {}] },
    });
    expect((await manager.verify()).findings).toEqual([]);

    const lines: string[] = [];
    for await (const line of manager.exportSession('lg/thread')) lines.push(line);
    const elsewhere = new InMemoryCheckpointStorage();
    await managerOf(elsewhere).importSession(ReadableStream.from(lines) as never);
    const [imported] = await tuples(new SavestateSaver(elsewhere));
    const [original] = await tuples(saver);
    expect(imported?.checkpoint).toEqual(original?.checkpoint);
    const found = await tuples(new SavestateSaver(elsewhere));
    expect(found.map(({ pendingWrites }) => pendingWrites)).toEqual(
      (await tuples(saver)).map((one) => one.pendingWrites),
    );
    await storage.close();
  });

  test('[langgraph.9] retention also frees what tasks wrote to the checkpoints it deletes', async () => {
    const { storage } = create();
    const draft = (step: number) => Array.from({ length: 40 }, (_, at) => `draft ${step}, line ${at}, `.repeat(40));
    const graph = new StateGraph(Annotation.Root({ step: Annotation<number>(), text: Annotation<string[]>() }))
      .addNode('write', ({ step }) => ({ step: step + 1, text: draft(step) }))
      .addEdge(START, 'write')
      .addConditionalEdges('write', ({ step }) => (step < 8 ? 'write' : END))
      .compile({ checkpointer: new SavestateSaver(storage) });
    await graph.invoke({ step: 0, text: [] }, ROOT);
    const manager = managerOf(storage);
    const before = await storage.stats();
    await manager.prune({ policy: { keepLast: 1 } });
    await manager.gc();
    const after = await storage.stats();
    expect(after.chunks).toBeLessThan(before.chunks / 4);
    expect((await graph.getState(ROOT)).values.text).toEqual(draft(7));
    expect((await manager.verify()).findings).toEqual([]);
    await storage.close();
  });

  test('retention thins it out, and the graph goes on', async () => {
    const { storage } = create();
    const graph = echoGraph(new SavestateSaver(storage));
    for (const text of ['one', 'two', 'three']) await graph.invoke({ messages: [human(text)] }, ROOT);
    const manager = managerOf(storage);
    await manager.prune({ policy: { keepLast: 2 } });
    await manager.gc();
    const fresh = new SavestateSaver(storage);
    expect(await tuples(fresh)).toHaveLength(2);
    await graph.invoke({ messages: [human('four')] }, ROOT);
    await echoGraph(fresh).invoke({ messages: [human('five')] }, ROOT);
    const { values } = await echoGraph(fresh).getState(ROOT);
    expect(contents(values.messages).filter((content) => !String(content).startsWith('echo'))).toEqual([
      'one',
      'two',
      'three',
      'four',
      'five',
    ]);
    expect((await manager.verify()).findings).toEqual([]);
    await storage.close();
  });
});

describe('[langgraph.13] a saver of a manager', () => {
  test('uses its storage, events, retention and secrets', async () => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({
      storage,
      classes: langGraphClasses,
      retention: { types: { auto: { keepLast: 3 } } },
    });
    const saved: string[] = [];
    manager.on('checkpoint_saved', (checkpoint) => void saved.push(checkpoint.trigger ?? ''));
    const saver = new SavestateSaver({ manager });
    const graph = echoGraph(saver);
    await graph.invoke(
      { messages: [human('my password is in api_key=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789')] },
      ROOT,
    );
    await graph.invoke({ messages: [human('two')] }, ROOT);
    expect(saved).toEqual(['input', 'loop', 'loop', 'loop', 'input', 'loop', 'loop', 'loop']);
    expect(await tuples(saver)).toHaveLength(3);
    expect(JSON.stringify((await saver.getTuple(ROOT))?.checkpoint)).not.toContain('abcdefghijkl');
    expect(() => new SavestateSaver({ manager: {} as never })).toThrow('must be a CheckpointManager');
  });

  test('keeps its migrations for its own states', async () => {
    const storage = new InMemoryCheckpointStorage();
    const migrations = [{ from: 0, migrate: () => ({ ruined: true }) }];
    const manager = new CheckpointManager({ storage, classes: langGraphClasses, schemaVersion: 1, migrations });
    await putValues(new SavestateSaver({ manager }), ROOT, { n: 1 });
    expect((await new SavestateSaver({ manager }).getTuple(ROOT))?.checkpoint.channel_values).toEqual({ n: 1 });
  });
});

describe('[langgraph.8] what a save costs', () => {
  const message = (at: number) => new AIMessage({ content: `message ${at} `.repeat(40), id: `m${at}` });

  test('is what is new, in a conversation of 3,000 messages, and after each new turn', LATER, async () => {
    const storage = new InMemoryCheckpointStorage();
    let messages = Array.from({ length: 3000 }, (_, at) => message(at));
    await putValues(new SavestateSaver(storage), ROOT, { messages, big: 'x'.repeat(100_000) });
    for (let turn = 0; turn < 3; turn++) {
      const saver = new SavestateSaver(storage);
      const tuple = await saver.getTuple(ROOT);
      messages = tuple?.checkpoint.channel_values.messages as AIMessage[];
      let config = tuple?.config ?? ROOT;
      for (let step = 0; step < 5; step++) {
        const before = await storage.stats();
        messages = [...messages, message(messages.length)];
        const channel_versions = { messages: turn * 10 + step + 2, big: 1 };
        const big = tuple?.checkpoint.channel_values.big;
        const checkpoint = checkpointOf({ messages, big }, { channel_versions });
        config = await saver.put(config, checkpoint, metadataOf(), { messages: channel_versions.messages });
        const after = await storage.stats();
        expect(after.chunks - before.chunks).toBeLessThan(8);
        expect(after.bytes - before.bytes).toBeLessThan(12_000);
      }
      const values = (await new SavestateSaver(storage).getTuple(config))?.checkpoint.channel_values;
      expect(values?.messages).toEqual(messages);
      expect(values?.big).toHaveLength(100_000);
    }
  });

  test('what was saved or read before is not read again, and each state of a list is right', LATER, async () => {
    const storage = new InMemoryCheckpointStorage();
    const saver = new SavestateSaver(storage);
    let messages = Array.from({ length: 500 }, (_, at) => message(at));
    let config = await putValues(saver, ROOT, { messages });
    for (let step = 0; step < 30; step++) {
      messages = [...messages, message(1000 + step)];
      config = await putValues(saver, config, { messages });
    }
    let read = 0;
    const { readReachable } = storage;
    storage.readReachable = async (digests) => {
      const chunks = await readReachable.call(storage, digests);
      read += chunks.length;
      return chunks;
    };
    const warm = (await saver.getTuple(ROOT))?.checkpoint.channel_values.messages;
    expect(read).toBeLessThan(5);
    const listed = await tuples(saver, ROOT, { limit: 31 });
    expect(read).toBeLessThan(5);
    expect(warm).toEqual(messages);
    const fresh = await tuples(new SavestateSaver(storage), ROOT, { limit: 31 });
    expect(listed.map(({ checkpoint }) => checkpoint)).toEqual(fresh.map(({ checkpoint }) => checkpoint));
  });

  test('a history of messages that came, went and changed is read right, from memory or not', async () => {
    const storage = new InMemoryCheckpointStorage();
    const saver = new SavestateSaver(storage);
    let messages = Array.from({ length: 60 }, (_, at) => message(at));
    let config = ROOT;
    for (let step = 0; step < 25; step++) {
      if (step % 5 === 0) messages = messages.slice(7);
      else if (step % 5 === 1) messages = messages.toSpliced(3, 2, message(2000 + step));
      else if (step % 5 === 2) (messages[step] as AIMessage).content = [{ type: 'text', text: `changed ${step}` }];
      else messages = [...messages, message(1000 + step), message(3000 + step)];
      config = await putValues(saver, config, { messages, data: new Map([[step, { bytes: new Uint8Array(step) }]]) });
    }
    const listed = await tuples(saver);
    const fresh = await tuples(new SavestateSaver(storage));
    expect(listed.map(({ checkpoint }) => checkpoint)).toEqual(fresh.map(({ checkpoint }) => checkpoint));
  });

  test('shadows are bounded, and a saver that lost them saves the same', async () => {
    const storage = new InMemoryCheckpointStorage();
    const saver = new SavestateSaver({ storage, shadowBudgetBytes: 1 });
    const graph = echoGraph(saver);
    await graph.invoke({ messages: [human('one')] }, threadConfig('a'));
    await graph.invoke({ messages: [human('two')] }, threadConfig('b'));
    await graph.invoke({ messages: [human('three')] }, threadConfig('a'));
    const { values } = await graph.getState(threadConfig('a'));
    expect(contents(values.messages)).toEqual(['one', 'echo 1', 'three', 'echo 3']);
  });
});

describeOn(STORAGES)('[langgraph.8] on %s a put or write that failed', (_, create) => {
  const long = (text: string) => Array.from({ length: 8 }, (_, at) => `${text} ${at} `.repeat(50));

  test('leaves no trace, and the next one brings what it needs', async () => {
    const inner = create().storage;
    const saver = new SavestateSaver(faultyStorage(inner, { commits: { 3: 'fails', 5: 'fails' } }));
    const first = await putValues(saver, ROOT, { list: long('a') });
    const second = await putValues(saver, first, { list: [...long('a'), ...long('b')] });
    const lost = putValues(saver, second, { list: [...long('a'), ...long('b'), ...long('c')] });
    await expect(lost).rejects.toMatchObject({ code: 'STORAGE' });
    const third = await putValues(saver, second, { list: [...long('a'), ...long('b'), ...long('c'), 'd'] });
    await expect(saver.putWrites(third, [['list', long('e')]], 'task')).rejects.toMatchObject({ code: 'STORAGE' });
    await saver.putWrites(third, [['list', long('f')]], 'task');
    await inner.collect();
    const tuple = await new SavestateSaver(inner).getTuple(third);
    expect(tuple?.checkpoint.channel_values.list).toHaveLength(25);
    expect(tuple?.pendingWrites).toEqual([['task', 'list', long('f')]]);
  });

  test('is no failure if only the answer was lost', async () => {
    const inner = create().storage;
    const saver = new SavestateSaver(
      faultyStorage(inner, { commits: { 2: 'loses_reply', 3: 'loses_reply', 5: 'loses_request' } }),
    );
    const first = await putValues(saver, ROOT, { n: 1 });
    const second = await putValues(saver, first, { n: 2 });
    await saver.putWrites(second, [['n', 3]], 'task');
    await saver.putWrites(second, [['n', 4]], 'other');
    await expect(putValues(saver, second, { n: 3 })).rejects.toMatchObject({ code: 'STORAGE' });
    const third = await putValues(saver, second, { n: 4 });
    const found = await tuples(new SavestateSaver(inner));
    expect(found.map(({ checkpoint }) => checkpoint.channel_values.n)).toEqual([4, 2, 1]);
    expect(found[1]?.pendingWrites).toEqual([
      ['task', 'n', 3],
      ['other', 'n', 4],
    ]);
    expect(found[0]?.config).toEqual(third);
  });
});
