import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { HumanMessage } from '@langchain/core/messages';
import { Annotation, END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { type BaseCheckpointSaver, MemorySaver } from '@langchain/langgraph-checkpoint';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { checkpointOf, metadataOf, putValues, ROOT, threadConfig } from '../../../../test/support/langgraph.ts';
import { describeOn, LATER } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

/** Those that store a state before a step is over. LangGraph keeps back what it has not handed over. */
const QUICK = STORAGES.filter(([name]) => name === 'memory' || name === 'sqlite');

const STEPS = 8;
const WAITS: [string, () => unknown][] = [
  ['nothing', () => undefined],
  ['a promise', async () => undefined],
  ['a turn', () => turn()],
  ['a millisecond', () => sleep(1)],
  ['two milliseconds now and then', () => (Math.random() < 0.5 ? sleep(2) : undefined)],
];

/** A graph whose node changes all messages in place before it adds one. */
function changingGraph(checkpointer: BaseCheckpointSaver, wait: () => unknown) {
  return new StateGraph(MessagesAnnotation)
    .addNode('change', async ({ messages }) => {
      for (const message of messages) message.additional_kwargs.seen = messages.length;
      await wait();
      for (const message of messages) message.additional_kwargs.done = messages.length;
      return { messages: [new HumanMessage({ id: `m${messages.length}`, content: 'more' })] };
    })
    .addEdge(START, 'change')
    .addConditionalEdges('change', ({ messages }) => (messages.length < STEPS ? 'change' : END))
    .compile({ checkpointer });
}

async function historyOf(checkpointer: BaseCheckpointSaver, wait: () => unknown): Promise<object[]> {
  const graph = changingGraph(checkpointer, wait);
  await graph.invoke({ messages: [new HumanMessage({ id: 'm0', content: 'first' })] }, ROOT);
  const states: object[] = [];
  for await (const { values, next, metadata } of graph.getStateHistory(ROOT)) {
    const messages = (values.messages as HumanMessage[] | undefined) ?? [];
    states.push({
      next,
      step: metadata?.step,
      seen: messages.map(({ id, additional_kwargs: seen }) => [id, { ...seen }]),
    });
  }
  return states;
}

describeOn(QUICK)('[langgraph.6] a graph on %s', (_, create) => {
  test.each(WAITS)('whose node changes messages in place and waits for %s has the history it had', async (__, wait) => {
    const { storage } = create();
    expect(await historyOf(new SavestateSaver(storage), wait)).toEqual(await historyOf(new MemorySaver(), wait));
    await storage.close();
  });
});

describeOn(QUICK)('[langgraph.9] on %s', (_, create) => {
  test('a run that was aborted: the next one runs nothing again that had finished', async () => {
    const { storage } = create();
    const ran: number[] = [];
    const stop = new AbortController();
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number>() }))
      .addNode('count', async ({ n }) => {
        await turn();
        if (n === 20) stop.abort();
        ran.push(n);
        return { n: n + 1 };
      })
      .addEdge(START, 'count')
      .addConditionalEdges('count', ({ n }) => (n < 40 ? 'count' : END))
      .compile({ checkpointer: new SavestateSaver(storage) });
    const config = { ...ROOT, recursionLimit: 100 };
    await graph.invoke({ n: 0 }, { ...config, signal: stop.signal }).catch(() => undefined);
    const state = await graph.getState(ROOT);
    await graph.invoke(null, config);
    expect(state.values.n).toBeLessThan(40);
    const finished = ran.filter((n) => n < state.values.n);
    expect(finished).toEqual(finished.map((__, at) => at));
    await storage.close();
  });
});

describeOn(STORAGES)('[langgraph.7] on %s', (_, create) => {
  test('a saver that finds writes to a checkpoint adds its own, however close they come', async () => {
    const { storage } = create();
    const config = await putValues(new SavestateSaver(storage), ROOT, { n: 0 });
    await new SavestateSaver(storage).putWrites(config, [['__interrupt__', 'question']], 'zero');
    const saver = new SavestateSaver(storage);
    const calls: Promise<void>[] = [];
    for (let at = 0; at < 6; at++) {
      calls.push(saver.putWrites(config, [['n', at]], `task-${at}`));
      await turn();
    }
    await Promise.all(calls);
    const found = (await new SavestateSaver(storage).getTuple(config))?.pendingWrites ?? [];
    expect(found.map(([, , value]) => value)).toEqual(['question', 0, 1, 2, 3, 4, 5]);
    await storage.close();
  });

  test('the next state takes along what another saver wrote before the checkpoint was put', async () => {
    const { storage } = create();
    const checkpoint = checkpointOf({});
    const config = threadConfig('thread', checkpoint.id);
    await new SavestateSaver(storage).putWrites(config, [['n', 1]], 'early');
    const saver = new SavestateSaver(storage);
    await saver.put(ROOT, checkpoint, metadataOf(), {});
    const next = await putValues(saver, config, {});
    const { n } = await saver.getDeltaChannelHistory({ config: next, channels: ['n'] });
    expect(n?.writes).toEqual([['early', 'n', 1]]);
    await storage.close();
  });
});

test('[langgraph.7] threads do not get into each other’s way, however many are at work at once', LATER, async () => {
  const saver = new SavestateSaver(new InMemoryCheckpointStorage());
  const threads = Array.from({ length: 1100 }, (_, at) => {
    const [first, next] = [checkpointOf({}), checkpointOf({})];
    const [root, config] = [threadConfig(`t${at}`), threadConfig(`t${at}`, first.id)];
    const calls = [
      saver.put(root, first, metadataOf(), {}),
      saver.putWrites(config, [['n', at]], 'task'),
      saver.put(config, next, metadataOf(), {}),
    ];
    return { calls, last: threadConfig(`t${at}`, next.id), at };
  });
  for (const { calls } of threads) await Promise.all(calls);
  for (const { last, at } of threads) {
    const { n } = await saver.getDeltaChannelHistory({ config: last, channels: ['n'] });
    expect(n?.writes).toEqual([['task', 'n', at]]);
  }
});

describeOn(STORAGES)('[langgraph.9] on %s a read sees', (_, create) => {
  test('what was begun before it', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    const first = await putValues(saver, ROOT, { n: 1 });
    const calls = [saver.putWrites(first, [['n', 2]], 'task'), putValues(saver, first, { n: 2 })];
    const [latest, before] = await Promise.all([saver.getTuple(ROOT), saver.getTuple(first)]);
    expect(latest?.checkpoint.channel_values).toEqual({ n: 2 });
    expect(before?.pendingWrites).toEqual([['task', 'n', 2]]);
    calls.push(putValues(saver, first, { n: 3 }));
    const listed: unknown[] = [];
    for await (const { checkpoint } of saver.list(ROOT)) listed.push(checkpoint.channel_values.n);
    expect(listed.toSorted()).toEqual([1, 2, 3]);
    await Promise.all(calls);
    await storage.close();
  });

  test('how far the graph is that it runs in', async () => {
    const { storage } = create();
    const seen: string[] = [];
    const look = async () => {
      seen.push((await graph.getState(ROOT)).next.join());
      return { n: 1 };
    };
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number>() }))
      .addNode('a', look)
      .addNode('b', look)
      .addNode('c', look)
      .addEdge(START, 'a')
      .addEdge('a', 'b')
      .addEdge('b', 'c')
      .compile({ checkpointer: new SavestateSaver(storage) });
    await graph.invoke({ n: 0 }, ROOT);
    expect(seen).toEqual(['a', 'b', 'c']);
    await storage.close();
  });
});

describe('a save', () => {
  afterEach(() => vi.useRealTimers());

  test.each(STORAGES)('[langgraph.10] on %s does not wait for timers that a test has replaced', async (_, create) => {
    const { storage } = create();
    vi.useFakeTimers();
    const saver = new SavestateSaver(storage);
    const first = await putValues(saver, ROOT, { n: 1 });
    await Promise.all([saver.putWrites(first, [['n', 2]], 'task'), putValues(saver, first, { n: 2 })]);
    expect((await saver.getTuple(ROOT))?.checkpoint.channel_values).toEqual({ n: 2 });
    vi.useRealTimers();
    await storage.close();
  });

  test('[value.5] is not refused for writes before it that were too large', async () => {
    const saver = new SavestateSaver({ storage: new InMemoryCheckpointStorage(), limits: { maxBytes: 5000 } });
    const first = await putValues(saver, ROOT, { messages: [] });
    const message = new HumanMessage({ id: '1', content: 'short' });
    const written = saver.putWrites(
      first,
      [
        ['messages', [message]],
        ['huge', 'x'.repeat(9000)],
      ],
      'task',
    );
    await expect(written).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await putValues(saver, first, { messages: [message] });
  });

  test('[langgraph.6] is that of the checkpoint it was called with', async () => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const checkpoint = checkpointOf({ n: 1 });
    const { id } = checkpoint;
    const put = saver.put(ROOT, checkpoint, metadataOf(), { n: 1 });
    checkpoint.id = checkpointOf({}).id;
    expect((await put).configurable?.checkpoint_id).toBe(id);
    expect((await saver.getTuple(threadConfig('thread', id)))?.checkpoint.id).toBe(id);
  });

  test('[langgraph.6] after a step that failed in part has what its finished tasks wrote', async () => {
    const outcome = async (checkpointer: BaseCheckpointSaver) => {
      const State = Annotation.Root({
        n: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
        data: Annotation<object>({ reducer: (a, b) => ({ ...a, ...b }), default: () => ({}) }),
      });
      const graph = new StateGraph(State)
        .addNode('ok', () => ({ n: 1, data: { found: 'by ok' } }))
        .addNode('bad', async () => {
          await sleep(5);
          throw new Error('bad');
        })
        .addEdge(START, 'ok')
        .addEdge(START, 'bad')
        .compile({ checkpointer });
      await graph.invoke({ n: 1 }, ROOT).catch(() => undefined);
      await graph.updateState(ROOT, { n: 10 }, 'bad');
      return (await graph.getState(ROOT)).values;
    };
    expect(await outcome(new SavestateSaver(new InMemoryCheckpointStorage()))).toEqual(
      await outcome(new MemorySaver()),
    );
  });
});
