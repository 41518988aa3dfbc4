import { HumanMessage } from '@langchain/core/messages';
import { Overwrite } from '@langchain/langgraph';
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint';
import { describe, expect, test } from 'vitest';
import { contents, deltaGraph, putValues, ROOT, tuples } from '../../../../test/support/langgraph.ts';
import { describeOn, LATER } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { engineOf } from '../../../manager/engine/engine.ts';
import { deleteCheckpoints } from '../../../manager/retention/retention-records.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

const human = (content: string) => new HumanMessage({ content });

type DeltaGraph = ReturnType<typeof deltaGraph>;

async function messagesAt(graph: DeltaGraph, config = ROOT): Promise<unknown[]> {
  return contents((await graph.getState(config)).values.messages);
}

describeOn(STORAGES)('[langgraph.4] delta channels on %s', (_, create) => {
  test('two updates of one checkpoint keep their own writes, one after the other', async () => {
    const { storage } = create();
    const graph = deltaGraph(new SavestateSaver(storage));
    await graph.invoke({ messages: [human('hello')] }, ROOT);
    const { config } = await graph.getState(ROOT);
    const left = await graph.updateState(config, { messages: [human('left')] }, 'answer');
    const right = await graph.updateState(config, { messages: [human('right')] }, 'answer');
    expect(await messagesAt(graph, left)).toEqual(['hello', 'echo 1', 'left']);
    expect(await messagesAt(graph, right)).toEqual(['hello', 'echo 1', 'right']);
    expect(await messagesAt(graph, config)).toEqual(['hello', 'echo 1']);
    await storage.close();
  });

  test('and at once, also when another process reads them', async () => {
    const { storage } = create();
    const graph = deltaGraph(new SavestateSaver(storage));
    await graph.invoke({ messages: [human('hello')] }, ROOT);
    const { config } = await graph.getState(ROOT);
    const names = ['a', 'b', 'c'];
    const configs = await Promise.all(
      names.map((name) => graph.updateState(config, { messages: [human(name)] }, 'answer')),
    );
    const other = deltaGraph(new SavestateSaver(storage));
    for (const [at, fork] of configs.entries())
      expect(await messagesAt(other, fork)).toEqual(['hello', 'echo 1', names[at]]);
    await storage.close();
  });

  test('forks made by different processes, and what goes on from them', async () => {
    const { storage, reopen = () => storage } = create();
    const graph = deltaGraph(new SavestateSaver(storage));
    await graph.invoke({ messages: [human('hello')] }, ROOT);
    const { config } = await graph.getState(ROOT);
    const left = await graph.updateState(config, { messages: [human('left')] }, 'answer');
    const elsewhere = reopen();
    const other = deltaGraph(new SavestateSaver(elsewhere));
    const right = await other.updateState(config, { messages: [human('right')] }, 'answer');
    await other.invoke({ messages: [human('more')] }, left);
    expect(await messagesAt(graph)).toEqual(['hello', 'echo 1', 'left', 'more', 'echo 4']);
    expect(await messagesAt(graph, right)).toEqual(['hello', 'echo 1', 'right']);
    await storage.close();
    await elsewhere.close();
  });
});

test('[langgraph.4] a run that begins in the past has nothing of what was written there before', async () => {
  const saver = new SavestateSaver(new InMemoryCheckpointStorage());
  const graph = deltaGraph(saver);
  await graph.invoke({ messages: [human('hello')] }, ROOT);
  const [, before] = await tuples(saver); // the step in which the answer was written
  await graph.invoke(null, before?.config);
  const [latest, fork] = await tuples(saver);
  expect(fork?.metadata?.source).toBe('fork');
  expect(fork?.parentConfig).toEqual(before?.config);
  expect(await messagesAt(graph, fork?.config)).toEqual(['hello']);
  expect(await messagesAt(graph, latest?.config)).toEqual(['hello', 'echo 1']);
});

describe('[langgraph.4] the history of delta channels', () => {
  test('is read in a few calls, however long it is', LATER, async () => {
    const storage = new InMemoryCheckpointStorage();
    const graph = deltaGraph(new SavestateSaver(storage));
    for (let turn = 0; turn < 40; turn++) await graph.invoke({ messages: [human(`m${turn}`)] }, ROOT);
    const { counted, calls } = countCalls(storage);
    const expected = Array.from({ length: 40 }, (_, turn) => [`m${turn}`, `echo ${turn * 2 + 1}`]).flat();
    expect(await messagesAt(deltaGraph(new SavestateSaver(counted)))).toEqual(expected);
    expect(calls.length).toBeLessThan(12);
  });

  test('goes back to a snapshot, over forks, interrupted turns and overwritten values', async () => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const graph = deltaGraph(saver, 3);
    for (const text of ['a', 'b', 'c']) await graph.invoke({ messages: [human(text)] }, ROOT);
    const values = (await tuples(saver)).flatMap(({ checkpoint }) => Object.values(checkpoint.channel_values));
    expect(values.some((value) => value instanceof DeltaSnapshot)).toBe(true);
    expect(await messagesAt(graph)).toEqual(['a', 'echo 1', 'b', 'echo 3', 'c', 'echo 5']);
    await graph.updateState(ROOT, { messages: new Overwrite([human('anew')]) as never }, 'answer');
    await graph.invoke({ messages: [human('d')] }, ROOT);
    expect(await messagesAt(graph)).toEqual(['anew', 'd', 'echo 2']);
  });

  test('of a channel that was saved whole before goes on from that value', async () => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const whole = await putValues(saver, ROOT, { items: [1, 2], other: 'x' });
    await saver.putWrites(whole, [['items', [3]]], 'task');
    const delta = await putValues(saver, whole, {});
    const history = await saver.getDeltaChannelHistory({ config: delta, channels: ['items', 'none'] });
    expect(history).toEqual({ items: { seed: [1, 2], writes: [['task', 'items', [3]]] }, none: { writes: [] } });
    expect(await saver.getDeltaChannelHistory({ config: { configurable: {} }, channels: ['items'] })).toEqual({
      items: { writes: [] },
    });
  });

  test('[langgraph.4] is refused, and not cut short, if a run in it was deleted; verify says so', async () => {
    const storage = new InMemoryCheckpointStorage();
    const saver = new SavestateSaver(storage);
    const graph = deltaGraph(saver);
    for (const text of ['a', 'b', 'c']) await graph.invoke({ messages: [human(text)] }, ROOT);
    const manager = new CheckpointManager({ storage });
    const { checkpoints } = await manager.list({ sessionId: 'lg/thread' }, { order: 'oldest' });
    const doomed = new Map(checkpoints.slice(3, 6).map(({ id }) => [id, 'the second run']));
    await deleteCheckpoints(engineOf(manager), doomed, { force: true });
    await expect(deltaGraph(new SavestateSaver(storage)).getState(ROOT)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const { status, findings, damagedCheckpoints } = await manager.verify();
    expect({ status, problems: findings.map(({ problem }) => problem) }).toEqual({
      status: 'damaged',
      problems: [expect.stringMatching(/cannot be read whole: it needs its parent chk_\w+, which was deleted/)],
    });
    expect(damagedCheckpoints).toHaveLength(3);
  });
});

/** A storage that notes which of its methods were called. */
function countCalls(storage: ChunkStorage): { counted: ChunkStorage; calls: string[] } {
  const calls: string[] = [];
  const counted = new Proxy(storage, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        calls.push(String(name));
        return value.apply(target, args);
      };
    },
  });
  return { counted, calls };
}
