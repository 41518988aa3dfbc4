import { setImmediate } from 'node:timers/promises';
import { AIMessage, HumanMessage } from '@langchain/core/messages';
import type { RunnableConfig } from '@langchain/core/runnables';
import { Annotation, Command, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { type CheckpointTuple, type PendingWrite, uuid6 } from '@langchain/langgraph-checkpoint';
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
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

describeOn(STORAGES)('[langgraph.7] writes on %s', (_, create) => {
  test('may come before their checkpoint', async () => {
    const { storage } = create();
    const checkpoint = checkpointOf({ n: 1 });
    const config = threadConfig('thread', checkpoint.id);
    await new SavestateSaver(storage).putWrites(config, [['n', 2]], 'early');
    const saver = new SavestateSaver(storage);
    expect(await saver.getTuple(config)).toBeUndefined();
    await saver.put(ROOT, checkpoint, metadataOf(), { n: 1 });
    expect((await saver.getTuple(config))?.pendingWrites).toEqual([['early', 'n', 2]]);
    await storage.close();
  });

  test('of ordinary channels with the same number the first counts, of special ones the last', async () => {
    const { storage, reopen = () => storage } = create();
    const other = reopen();
    const config = await putValues(new SavestateSaver(storage), ROOT, {});
    const calls: PendingWrite[][] = [
      [
        ['a', 1],
        ['b', 1],
      ],
      [
        ['a', 2],
        ['b', 2],
        ['c', 2],
      ],
      [['__interrupt__', 'first']],
      [['__interrupt__', 'second']],
      [
        ['__error__', 'oops'],
        ['__resume__', 'yes'],
      ],
      [['__interrupt__', 'first']],
    ];
    const savers = [new SavestateSaver(storage), new SavestateSaver(other)];
    for (const [at, writes] of calls.entries()) await savers[at % 2]?.putWrites(config, writes, 'task');
    const found = (await new SavestateSaver(other).getTuple(config))?.pendingWrites;
    expect(found?.toSorted()).toEqual(
      [
        ['task', 'a', 1],
        ['task', 'b', 1],
        ['task', 'c', 2],
        ['task', '__interrupt__', 'first'],
        ['task', '__error__', 'oops'],
        ['task', '__resume__', 'yes'],
      ].toSorted(),
    );
    await storage.close();
    await other.close();
  });

  test('of many tasks and two processes at once are all kept', async () => {
    const { storage, reopen = () => storage } = create();
    const other = reopen();
    const savers = [new SavestateSaver(storage), new SavestateSaver(other)];
    const config = await putValues(new SavestateSaver(storage), ROOT, {});
    const tasks = Array.from({ length: 8 }, (_, at) => `task-${at}`);
    await Promise.all(tasks.map((task, at) => savers[at % 2]?.putWrites(config, [['a', at]], task)));
    const found = (await new SavestateSaver(storage).getTuple(config))?.pendingWrites;
    expect(found?.toSorted()).toEqual(tasks.map((task, at) => [task, 'a', at]));
    await storage.close();
    await other.close();
  });
});

describeOn(STORAGES)('[langgraph.7] on %s writes', (_, create) => {
  test('that are repeated are stored once', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const config = await putValues(saver, ROOT, {});
    for (let time = 0; time < 3; time++) await saver.putWrites(config, [['a', { n: 1 }]], 'task');
    await new SavestateSaver(storage).putWrites(config, [['a', { n: 1 }]], 'task');
    expect(await storage.readEffects({ sessionId: 'lg/thread' })).toHaveLength(1);
  });

  test('tell an array of one from the one', async () => {
    const saver = new SavestateSaver(create().storage);
    const config = await putValues(saver, ROOT, {});
    await saver.putWrites(
      config,
      [
        ['a', ['x']],
        ['b', 'x'],
        ['c', [['x']]],
      ],
      'task',
    );
    await saver.putWrites(config, [], 'none');
    expect((await saver.getTuple(config))?.pendingWrites).toEqual([
      ['task', 'a', ['x']],
      ['task', 'b', 'x'],
      ['task', 'c', [['x']]],
    ]);
  });

  test('are the messages of the state, stored once', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const message = new AIMessage({ content: 'a long answer '.repeat(200), id: 'a' });
    const before = Array.from(
      { length: 8 },
      (_, at) => new HumanMessage({ content: `${at} `.repeat(100), id: `h${at}` }),
    );
    const first = await putValues(saver, ROOT, { messages: before });
    await saver.putWrites(first, [['messages', [message]]], 'task');
    const { chunks, bytes } = await storage.stats();
    await putValues(saver, first, { messages: [...before, message] });
    expect((await storage.stats()).chunks).toBe(chunks);
    if (storage.kind === 'memory') expect((await storage.stats()).bytes - bytes).toBeLessThan(2000); // files grow by pages
  });

  test('let an interrupted run go on in another process, without running again what was done', async () => {
    const { storage } = create();
    const ran: string[] = [];
    const compile = () =>
      new StateGraph(
        Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) }),
      )
        .addNode('ask', () => {
          ran.push('ask');
          return { log: [String(interrupt({ question: 'ok?' }))] };
        })
        .addNode('beside', () => {
          ran.push('beside');
          return { log: ['beside'] };
        })
        .addNode('end', () => ({ log: ['end'] }))
        .addEdge(START, 'ask')
        .addEdge(START, 'beside')
        .addEdge('ask', 'end')
        .addEdge('beside', 'end')
        .addEdge('end', END)
        .compile({ checkpointer: new SavestateSaver(storage) });
    const stopped = await compile().invoke({ log: [] }, ROOT);
    expect(stopped).toMatchObject({ __interrupt__: [{ value: { question: 'ok?' } }] });
    expect((await compile().getState(ROOT)).tasks.map(({ interrupts }) => interrupts.length)).toEqual([1, 0]);
    const done = await compile().invoke(new Command({ resume: 'yes' }), ROOT);
    expect(done.log.toSorted()).toEqual(['beside', 'end', 'yes']);
    expect(ran).toEqual(['ask', 'beside', 'ask']);
  });
});

describeOn(STORAGES)('[langgraph.6] on %s channels', (_, create) => {
  test('with a new version and no value are empty, those without a new version stay', async () => {
    const saver = new SavestateSaver(create().storage);
    const first = await putValues(saver, ROOT, { kept: 'kept', emptied: 'x', changed: 1 });
    const versions = { kept: 1, emptied: 2, changed: 2 };
    const second = await saver.put(first, checkpointOf({ changed: 2 }, { channel_versions: versions }), metadataOf(), {
      emptied: 2,
      changed: 2,
    });
    expect((await saver.getTuple(second))?.checkpoint.channel_values).toEqual({ kept: 'kept', changed: 2 });
    const again = checkpointOf({ changed: 2 }, { channel_versions: versions });
    const third = await new SavestateSaver(create().storage).put(second, again, metadataOf(), {});
    expect(third.configurable?.checkpoint_id).toBe(again.id);
  });

  test('of a copied checkpoint are those of the original, also where it has no parent', async () => {
    const saver = new SavestateSaver(create().storage);
    const graph = echoGraph(saver);
    await graph.invoke({ messages: [new HumanMessage('hello')] }, ROOT);
    for (const { config } of await history(graph)) {
      const copy = await graph.updateState(config, null, '__copy__');
      const [original, copied] = await Promise.all([saver.getTuple(config), saver.getTuple(copy)]);
      expect(copied?.checkpoint.channel_values).toEqual(original?.checkpoint.channel_values);
      expect(copied?.parentConfig).toEqual(original?.parentConfig);
    }
  });

  test('of a checkpoint whose parent is not stored are all that was given', async () => {
    const saver = new SavestateSaver(create().storage);
    const unknown = threadConfig('thread', uuid6(0));
    const config = await saver.put(unknown, checkpointOf({ a: 1, b: 2 }), metadataOf(), { a: 1 });
    const tuple = await saver.getTuple(config);
    expect(tuple?.checkpoint.channel_values).toEqual({ a: 1, b: 2 });
    expect(tuple?.parentConfig).toEqual(unknown);
  });

  test('may have any name', async () => {
    const saver = new SavestateSaver(create().storage);
    const early = threadConfig('thread', uuid6(0));
    await saver.putWrites(
      early,
      [
        ['constructor', 1],
        ['__proto__', 2],
      ],
      'task',
    );
    await saver.put(ROOT, checkpointOf({}, { id: String(early.configurable?.checkpoint_id) }), metadataOf(), {});
    expect((await saver.getTuple(early))?.pendingWrites).toEqual([
      ['task', 'constructor', 1],
      ['task', '__proto__', 2],
    ]);
    const values = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2, "$": 3}');
    const config = await putValues(saver, ROOT, values);
    const next = await saver.put(
      config,
      checkpointOf({}, { channel_versions: checkpointOf(values).channel_versions }),
      metadataOf(),
      {},
    );
    expect(Object.entries((await saver.getTuple(next))?.checkpoint.channel_values ?? {})).toEqual(
      Object.entries(values),
    );
  });
});

/** Messages by what they are, and not by what they were made from. */
function fieldsOf(messages: unknown): object[] {
  return (messages as object[]).map((message) => ({ ...message, lc_kwargs: undefined }));
}

describeOn(STORAGES)('[langgraph.6] on %s a message that is changed in place', (_, create) => {
  test.each(['content', 'nested', 'removed', 'extra'])('is saved as it is now: %s', async (how) => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const deep = { n: 1 };
    const message = new AIMessage({ content: 'old', tool_calls: [{ name: 't', args: { deep }, id: '1' }] });
    const messages = [new HumanMessage('before'), message, new HumanMessage('after')];
    const first = await putValues(saver, ROOT, { messages });
    if (how === 'content') message.content = 'new';
    if (how === 'nested') deep.n = 2;
    if (how === 'removed') message.tool_calls?.pop();
    if (how === 'extra') Object.assign(message, { extra: 'field' });
    const second = await putValues(saver, first, { messages: [...messages] });
    const reader = new SavestateSaver(storage);
    const [old, now] = await Promise.all([reader.getTuple(first), reader.getTuple(second)]);
    expect(fieldsOf(now?.checkpoint.channel_values.messages)).toEqual(fieldsOf(messages));
    expect(fieldsOf(old?.checkpoint.channel_values.messages)).not.toEqual(fieldsOf(messages));
    expect(contents((old?.checkpoint.channel_values.messages as AIMessage[]) ?? [])).toEqual([
      'before',
      'old',
      'after',
    ]);
  });

  test('in a long thread is saved at once with `all`, else within a step for every 256 messages', async () => {
    for (const [inPlace, most] of [
      ['all', 1],
      ['recent', 3],
    ] as const) {
      const { storage } = create();
      const saver = new SavestateSaver({ storage, inPlace });
      let messages = Array.from({ length: 600 }, (_, at) => new HumanMessage(`${at}`));
      let config = await putValues(saver, ROOT, { messages });
      const put = async (): Promise<unknown> => {
        messages = [...messages, new HumanMessage('next')];
        config = await putValues(saver, config, { messages });
        const tuple = await new SavestateSaver(storage).getTuple(config);
        const saved = tuple?.checkpoint.channel_values.messages as HumanMessage[] | undefined;
        return saved?.[5]?.content;
      };
      await put();
      Object.assign(messages[5] as HumanMessage, { content: 'changed' });
      const found: unknown[] = [];
      while (found.length < most) found.push(await put());
      expect(found.at(-1)).toBe('changed');
    }
  });

  test('so is all else that was given', async () => {
    for (const isParentKnown of [true, false]) {
      const { storage } = create();
      const first = await putValues(new SavestateSaver(storage), ROOT, { a: 1, b: 1 });
      const saver = new SavestateSaver(storage);
      if (isParentKnown) await saver.getTuple(first);
      const checkpoint = checkpointOf(
        { a: 2, b: 2 },
        { channel_versions: { a: 2, b: 1 }, versions_seen: { node: { a: 1 } } },
      );
      const parents: { [namespace: string]: string } = { '': 'before' };
      const metadata = { ...metadataOf('loop', 5), parents, ...(isParentKnown && { at: new Date(0) }) };
      const newVersions: { [name: string]: number } = { a: 2 };
      const put = saver.put(first, checkpoint, metadata, newVersions);
      Object.assign(checkpoint.channel_versions, { a: 9, b: 9 });
      Object.assign(checkpoint.versions_seen, { other: {} });
      Object.assign(metadata, { step: 6 });
      parents[''] = 'after';
      newVersions.b = 2;
      const tuple = await saver.getTuple(await put);
      expect(tuple?.checkpoint).toMatchObject({
        channel_values: { a: 2, b: 2 },
        channel_versions: { a: 2, b: 1 },
        versions_seen: { node: { a: 1 } },
      });
      expect(Object.keys(tuple?.checkpoint.versions_seen ?? {})).toEqual(['node']);
      expect(tuple?.metadata).toMatchObject({ step: 5, parents: { '': 'before' } });
      expect(tuple?.metadata).toMatchObject(isParentKnown ? { at: new Date(0) } : {});
    }
  });

  test('by a node that does not write to its channel is saved too', async () => {
    const graph = new StateGraph(Annotation.Root({ doc: Annotation<{ count: number }>(), turn: Annotation<number>() }))
      .addNode('count', ({ doc }) => {
        doc.count++;
        return { turn: doc.count };
      })
      .addEdge(START, 'count')
      .compile({ checkpointer: new SavestateSaver(create().storage) });
    await graph.invoke({ doc: { count: 0 } }, ROOT);
    for (let turn = 0; turn < 2; turn++) await graph.invoke({ turn }, ROOT);
    expect((await graph.getState(ROOT)).values).toEqual({ doc: { count: 3 }, turn: 3 });
  });

  test('while it is being saved is saved as it was when put was called', async () => {
    const saver = new SavestateSaver(create().storage);
    const message = new HumanMessage('at the call');
    const first = await putValues(saver, ROOT, { messages: [] });
    await saver.getTuple(first);
    const put = putValues(saver, first, { messages: [message] });
    const written = saver.putWrites(first, [['messages', [message]]], 'task');
    message.content = 'later';
    await written;
    const tuple = await saver.getTuple(await put);
    expect(contents(tuple?.checkpoint.channel_values.messages as HumanMessage[])).toEqual(['at the call']);
    expect(contents((await saver.getTuple(first))?.pendingWrites?.[0]?.[2] as HumanMessage[])).toEqual(['at the call']);
  });
});

test('[langgraph.10] a save reads its state at once, and leaves the rest for a little later', async () => {
  let commits = 0;
  class Counting extends InMemoryCheckpointStorage {
    override commit(...args: Parameters<InMemoryCheckpointStorage['commit']>) {
      commits++;
      return super.commit(...args);
    }
  }
  const saver = new SavestateSaver(new Counting());
  const first = await putValues(saver, ROOT, { n: 1 });
  const hop = async (count: number) => {
    for (let at = 0; at < count; at++) await undefined;
  };
  const loop = (from: RunnableConfig, n: number) => {
    const checkpoint = checkpointOf({ n });
    return saver.put(from, checkpoint, metadataOf('loop', n), checkpoint.channel_versions);
  };
  const written = saver.putWrites(first, [['n', 2]], 'task');
  const second = loop(first, 2);
  await hop(10);
  expect(commits).toBe(1);
  await setImmediate();
  expect(commits).toBe(3);
  const third = loop(await second, 3);
  await hop(10);
  expect(commits).toBe(3);
  await hop(60);
  expect(commits).toBe(4);
  await Promise.all([written, third]);
});

test.each(STORAGES)(
  '[langgraph.9] on %s nothing handed out leads back to what is stored or remembered',
  async (_, create) => {
    const saver = new SavestateSaver(create().storage);
    const config = await putValues(saver, ROOT, { messages: [new HumanMessage('one')], data: { list: [1] } });
    await saver.putWrites(config, [['data', { list: [2] }]], 'task');
    const spoil = (tuple: CheckpointTuple): void => {
      const { messages, data } = tuple.checkpoint.channel_values as {
        messages: [HumanMessage, ...HumanMessage[]];
        data: { list: number[] };
      };
      messages[0].content = 'spoilt';
      messages.push(new HumanMessage('more'));
      data.list.push(9);
      const [[, , written] = []] = tuple.pendingWrites ?? [];
      (written as { list: number[] }).list.push(9);
      Object.assign(tuple.metadata ?? {}, { step: 99 });
    };
    for (let time = 0; time < 3; time++) {
      spoil((await saver.getTuple(config)) as CheckpointTuple);
      for (const tuple of await tuples(saver)) spoil(tuple);
    }
    const tuple = await saver.getTuple(ROOT);
    expect(tuple?.checkpoint.channel_values).toEqual({ messages: [new HumanMessage('one')], data: { list: [1] } });
    expect(tuple?.pendingWrites).toEqual([['task', 'data', { list: [2] }]]);
    expect(tuple?.metadata).toEqual(metadataOf());
  },
);

async function history(graph: ReturnType<typeof echoGraph>) {
  const found = [];
  for await (const state of graph.getStateHistory(ROOT)) found.push(state);
  return found;
}
