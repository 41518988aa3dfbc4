import { HumanMessage } from '@langchain/core/messages';
import { Overwrite } from '@langchain/langgraph';
import { MemorySaver } from '@langchain/langgraph-checkpoint';
import { describe, expect, test } from 'vitest';
import { contents, deltaGraph, ROOT, threadConfig, tuples, valueGraph } from '../../../../test/support/langgraph.ts';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { RetentionPolicy } from '../../../manager/retention/retention.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { langGraphClasses } from '../codec/saver-options.ts';
import { importThreads } from '../transfer/thread-import.ts';
import { SavestateSaver } from './savestate-saver.ts';

const human = (content: string) => new HumanMessage({ content });

const KEEP_ONE: RetentionPolicy = { keepLast: 1 };

type DeltaGraph = ReturnType<typeof deltaGraph>;
type Durability = 'sync' | 'async' | 'exit';

async function converse(graph: DeltaGraph, turns: number, durability: Durability = 'sync'): Promise<void> {
  for (let turn = 0; turn < turns; turn++)
    await graph.invoke({ messages: [human(`m${turn}`)] }, { ...ROOT, durability });
}

const dialogue = (turns: number) =>
  Array.from({ length: turns }, (_, turn) => [`m${turn}`, `echo ${turn * 2 + 1}`]).flat();

async function messagesAt(graph: DeltaGraph, config = ROOT): Promise<unknown[]> {
  return contents((await graph.getState(config)).values.messages);
}

/** What a process that knows nothing yet finds, and that it can go on. */
async function expectWhole(
  storage: ChunkStorage,
  expected: readonly unknown[],
  snapshotFrequency = 1000,
): Promise<void> {
  const manager = new CheckpointManager({ storage });
  await manager.gc();
  expect((await manager.verify()).findings).toEqual([]);
  const graph = deltaGraph(new SavestateSaver(storage), snapshotFrequency);
  expect(await messagesAt(graph)).toEqual(expected);
  await graph.invoke({ messages: [human('next')] }, ROOT);
  expect(await messagesAt(graph)).toEqual([...expected, 'next', `echo ${expected.length + 1}`]);
}

describeOn(STORAGES)('[langgraph.4] delta channels on %s', (_, create) => {
  test('survive prune: the checkpoints that hold their writes are kept, and the dry run says why', async () => {
    const { storage } = create();
    await converse(deltaGraph(new SavestateSaver(storage)), 6);
    const manager = new CheckpointManager({ storage });
    const { verdicts } = await manager.prune({ policy: KEEP_ONE, dryRun: true });
    expect(new Set(verdicts.map(({ reason }) => reason))).toEqual(
      new Set([
        expect.stringContaining('head of branch main'),
        expect.stringMatching(/^needed to read checkpoint chk_/),
      ]),
    );
    expect((await manager.prune({ policy: KEEP_ONE })).deleted).toEqual([]);
    await expectWhole(storage, dialogue(6));
    await storage.close();
  });

  test('what lies before a snapshot goes, and what a tag needs stays', async () => {
    const { storage } = create();
    const graph = deltaGraph(new SavestateSaver(storage), 5);
    await converse(graph, 12);
    const manager = new CheckpointManager({ storage });
    const tuple = (await tuples(new SavestateSaver(storage))).at(-6);
    const { checkpoints } = await manager.list({ sessionId: 'lg/thread' }, { order: 'oldest' });
    await manager.tag(checkpoints[5]?.id ?? '', 'v1');
    const before = await messagesAt(graph, tuple?.config);
    const { deleted } = await manager.prune({ policy: KEEP_ONE });
    const left = (await manager.list({ sessionId: 'lg/thread' }, { order: 'oldest' })).checkpoints;
    expect(deleted.length).toBeGreaterThan(checkpoints.length / 2);
    expect(left.length + deleted.length).toBe(checkpoints.length);
    const firstOfLatest = left.findIndex(({ sequence }) => sequence > 6);
    expect(left[firstOfLatest]?.header).not.toHaveProperty('needsParent');
    for (const { header } of left.slice(firstOfLatest + 1)) expect(header.needsParent).toBe(true);
    expect(await messagesAt(deltaGraph(new SavestateSaver(storage), 5), tuple?.config)).toEqual(before);
    await expectWhole(storage, dialogue(12), 5);
    await storage.close();
  });
});

describe('[langgraph.4] delta channels survive', () => {
  test.each<[string, RetentionPolicy]>([
    ['a limit of all checkpoints', { maxCheckpoints: 3 }],
    ['a rule of their type', { types: { auto: { keepLast: 2 } } }],
    ['both', { maxCheckpoints: 1, types: { auto: { keepLast: 1 } } }],
  ])('%s at work after each save', async (_, retention) => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage, classes: langGraphClasses, retention });
    const graph = deltaGraph(new SavestateSaver({ manager }), 10);
    await converse(graph, 20);
    const { checkpoints, tombstones } = await manager.stats();
    expect(checkpoints + tombstones).toBe(60);
    expect(checkpoints).toBeLessThan(20); // the newest, and what they need back to a snapshot
    await manager.prune();
    await expectWhole(storage, dialogue(20), 10);
  });

  test('limits of a storage', async () => {
    const storage = new InMemoryCheckpointStorage({ maxCheckpoints: 2 });
    const manager = new CheckpointManager({ storage, classes: langGraphClasses });
    await converse(deltaGraph(new SavestateSaver({ manager })), 5);
    await manager.prune();
    await expectWhole(storage, dialogue(5));
  });

  test.each([1, 3, 1000])(
    'updates, which count nothing, also right after a snapshot (one in %i)',
    async (frequency) => {
      const storage = new InMemoryCheckpointStorage();
      const graph = deltaGraph(new SavestateSaver(storage), frequency);
      const manager = new CheckpointManager({ storage });
      for (let turn = 0; turn < 4; turn++) {
        await graph.invoke({ messages: [human(`m${turn}`)] }, ROOT);
        await graph.updateState(ROOT, { messages: [human(`update ${turn}`)] }, 'answer');
        await graph.updateState(ROOT, null as never);
        const expected = await messagesAt(graph);
        expect(expected).toHaveLength(3 * (turn + 1));
        await manager.prune({ policy: KEEP_ONE });
        expect(await messagesAt(deltaGraph(new SavestateSaver(storage), frequency))).toEqual(expected);
      }
      const expected = await messagesAt(deltaGraph(new SavestateSaver(storage), frequency));
      await expectWhole(storage, expected, frequency);
    },
  );

  test('values that were overwritten, which are snapshots', async () => {
    const storage = new InMemoryCheckpointStorage();
    const graph = deltaGraph(new SavestateSaver(storage));
    await graph.invoke({ messages: new Overwrite([human('anew')]) as never }, ROOT);
    await graph.updateState(ROOT, { messages: [human('update')] }, 'answer');
    await new CheckpointManager({ storage }).prune({ policy: KEEP_ONE });
    await expectWhole(storage, ['anew', 'echo 1', 'update']);
  });

  test.each<Durability>(['async', 'exit'])('runs with durability %s', async (durability) => {
    const storage = new InMemoryCheckpointStorage();
    await converse(deltaGraph(new SavestateSaver(storage)), 4, durability);
    await new CheckpointManager({ storage }).prune({ policy: KEEP_ONE });
    await expectWhole(storage, dialogue(4));
  });

  test('forks: each keeps its own way back, and copies of checkpoints too', async () => {
    const storage = new InMemoryCheckpointStorage();
    const graph = deltaGraph(new SavestateSaver(storage), 4);
    await converse(graph, 3);
    const [, , middle] = await tuples(new SavestateSaver(storage));
    const left = await graph.updateState(middle?.config ?? {}, { messages: [human('left')] }, 'answer');
    const copy = await graph.updateState(middle?.config ?? {}, null as never, '__copy__');
    const before = [await messagesAt(graph), await messagesAt(graph, left), await messagesAt(graph, copy)];
    const manager = new CheckpointManager({ storage });
    expect((await manager.prune({ policy: KEEP_ONE })).deleted.length).toBeGreaterThan(0);
    const other = deltaGraph(new SavestateSaver(storage), 4);
    expect([await messagesAt(other), await messagesAt(other, left), await messagesAt(other, copy)]).toEqual(before);
    expect((await manager.verify()).findings).toEqual([]);
  });

  test('in threads that were copied or imported', async () => {
    const storage = new InMemoryCheckpointStorage();
    const saver = new SavestateSaver(storage);
    await converse(deltaGraph(saver, 4), 5);
    await saver.copyThread('thread', 'copy');
    const official = new MemorySaver();
    await deltaGraph(official, 4).invoke({ messages: [human('m')] }, threadConfig('imported'));
    await deltaGraph(official, 4).invoke({ messages: [human('n')] }, threadConfig('imported'));
    await importThreads(official, saver);
    const before = (await storage.stats()).checkpoints;
    await new CheckpointManager({ storage }).prune({ policy: KEEP_ONE });
    expect((await storage.stats()).checkpoints).toBeLessThan(before);
    const graph = deltaGraph(new SavestateSaver(storage), 4);
    expect(await messagesAt(graph, threadConfig('copy'))).toEqual(dialogue(5));
    expect(await messagesAt(graph, threadConfig('imported'))).toEqual(['m', 'echo 1', 'n', 'echo 3']);
    await expectWhole(storage, dialogue(5), 4);
  });
});

test('[langgraph.4] prune keeps what the delta channels of a tagged checkpoint need', async () => {
  const storage = new InMemoryCheckpointStorage();
  const saver = new SavestateSaver(storage);
  const graph = deltaGraph(saver, 5);
  await converse(graph, 9);
  const manager = new CheckpointManager({ storage });
  const { checkpoints } = await manager.list({ sessionId: 'lg/thread' }, { order: 'oldest' });
  await manager.tag(checkpoints[11]?.id ?? '', 'v1');
  const tagged = (await tuples(saver)).at(-12);
  const before = await messagesAt(graph, tagged?.config);
  await manager.prune({ policy: KEEP_ONE });
  expect((await storage.stats()).checkpoints).toBeLessThan(checkpoints.length);
  expect(await messagesAt(graph, tagged?.config)).toEqual(before);
  await expectWhole(storage, dialogue(9), 5);
});

test('[langgraph.4] graphs without delta channels need no parents, whatever is done to them', async () => {
  const storage = new InMemoryCheckpointStorage();
  const graph = valueGraph(new SavestateSaver(storage), 1);
  for (const note of ['a', 'b']) await graph.invoke({ note }, ROOT);
  const { config } = await graph.getState(ROOT);
  await graph.updateState(config, { note: 'left' }, 'write');
  await graph.updateState(config, null as never, '__copy__');
  const manager = new CheckpointManager({ storage });
  for (const { header } of (await manager.list({ sessionId: 'lg/thread' })).checkpoints) {
    expect(header).not.toHaveProperty('needsParent');
    expect(header.metadata?.langgraph).not.toHaveProperty('deltas');
  }
});
