import { HumanMessage } from '@langchain/core/messages';
import { expect, test } from 'vitest';
import { contents, echoGraph, putValues, ROOT, tuples } from '../../../../test/support/langgraph.ts';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { langGraphClasses } from '../codec/saver-options.ts';
import { SavestateStore } from '../store/savestate-store.ts';
import { SavestateSaver } from './savestate-saver.ts';

const human = (content: string) => new HumanMessage({ content });

describeOn(STORAGES)('forks on %s', (_, create) => {
  test('[langgraph.3] two updates of one checkpoint keep each its own values, each in a branch', async () => {
    const { storage } = create();
    const graph = echoGraph(new SavestateSaver(storage));
    await graph.invoke({ messages: [human('hello')] }, ROOT);
    const { config } = await graph.getState(ROOT);
    const left = await graph.updateState(config, { messages: [human('left')] }, 'answer');
    const right = await graph.updateState(config, { messages: [human('right')] }, 'answer');
    expect(contents((await graph.getState(left)).values.messages)).toEqual(['hello', 'echo 1', 'left']);
    expect(contents((await graph.getState(right)).values.messages)).toEqual(['hello', 'echo 1', 'right']);
    expect(contents((await graph.getState(config)).values.messages)).toEqual(['hello', 'echo 1']);

    const manager = new CheckpointManager({ storage });
    const branches = await manager.branches('lg/thread');
    expect(branches.map(({ branch }) => branch.replace(/-\w+$/, ''))).toEqual(['fork-5', 'main']);
    await storage.close();
  });

  test('[langgraph.3] a run from an old checkpoint begins a branch there and leaves the other as it was', async () => {
    const { storage } = create();
    const graph = echoGraph(new SavestateSaver({ storage, onConflict: 'error' }));
    await graph.invoke({ messages: [human('one')] }, ROOT);
    const { config: old } = await graph.getState(ROOT);
    await graph.invoke({ messages: [human('two')] }, ROOT);
    const { config: latest } = await graph.getState(ROOT);
    await graph.invoke({ messages: [human('other')] }, old);
    await graph.invoke(null, { ...old });

    expect(contents((await graph.getState(latest)).values.messages)).toEqual(['one', 'echo 1', 'two', 'echo 3']);
    const all = (await tuples(new SavestateSaver(storage))).map((tuple) =>
      contents((tuple.checkpoint.channel_values.messages as HumanMessage[]) ?? []).join(),
    );
    expect(all).toContain('one,echo 1,other,echo 3');
    await storage.close();
  });

  test('[retention.7] a branch that a run is on stays when retention ends the forgotten ones', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const { storage } = create();
    const manager = new CheckpointManager({ storage, classes: langGraphClasses, now: () => nowMs });
    const graph = echoGraph(new SavestateSaver({ manager }));
    await graph.invoke({ messages: [human('one')] }, ROOT);
    const { config: old } = await graph.getState(ROOT);
    await graph.invoke({ messages: [human('two')] }, ROOT);
    const { config: latest } = await graph.getState(ROOT);
    const fork = await graph.updateState(old, { messages: [human('other')] }, 'answer');
    await graph.updateState(old, { messages: [human('another')] }, 'answer');
    nowMs += 40 * 86_400_000;
    await graph.invoke({ messages: [human('three')] }, latest);
    const branches = await manager.branches('lg/thread');
    await manager.cleanupOldCheckpoints({ maxAgeDays: 30 });
    await manager.gc();
    expect((await manager.branches('lg/thread')).map(({ branch }) => branch)).toEqual(
      branches.map(({ branch }) => branch),
    );
    await graph.invoke({ messages: [human('more')] }, fork);
    expect(contents((await graph.getState(fork)).values.messages)).toEqual(['one', 'echo 1', 'other']);
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    await manager.close();
  });
});

/** Runs two turns at once, as two users of one thread would: each reads the thread before the other saves anything. */
async function race(saver: SavestateSaver, other = saver) {
  const both = [...new Set([saver, other])];
  const meet = meetingOf(2);
  for (const one of both) {
    const read = one.getTuple.bind(one);
    one.getTuple = async (config) => {
      const tuple = await read(config);
      await meet();
      return tuple;
    };
  }
  const first = echoGraph(saver).invoke({ messages: [human('first')] }, ROOT);
  const second = echoGraph(other).invoke({ messages: [human('second')] }, ROOT);
  const outcomes = await Promise.allSettled([first, second]);
  for (const one of both) Reflect.deleteProperty(one, 'getTuple');
  return outcomes;
}

/** Lets everybody go on when so many have come. */
function meetingOf(count: number): () => Promise<void> {
  let arrived = 0;
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return () => {
    if (++arrived === count) open();
    return opened;
  };
}

const lines = async (saver: SavestateSaver): Promise<string[]> =>
  (await tuples(saver)).map(({ checkpoint }) =>
    contents((checkpoint.channel_values.messages as HumanMessage[]) ?? []).join(),
  );

describeOn(STORAGES)('two turns at once on %s', (_, create) => {
  test('[langgraph.3] both are kept, the second in a branch of its own', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    await echoGraph(saver).invoke({ messages: [human('before')] }, ROOT);
    const outcomes = await race(saver);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
    const found = await lines(saver);
    expect(found).toContain('before,echo 1,first,echo 3');
    expect(found).toContain('before,echo 1,second,echo 3');
    const manager = new CheckpointManager({ storage });
    const heads = (await manager.branches('lg/thread')).map(({ headId }) => headId);
    const { roots } = await manager.tree('lg/thread');
    expect(heads).toHaveLength(2);
    expect(roots).toHaveLength(1);
    await storage.close();
  });

  test("[langgraph.3] with onConflict 'error' one of them gets a CONFLICT, and what it had not saved is not there", async () => {
    const { storage } = create();
    const saver = new SavestateSaver({ storage, onConflict: 'error' });
    await echoGraph(saver).invoke({ messages: [human('before')] }, ROOT);
    const outcomes = await race(saver);
    const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(failed).toMatchObject([{ code: 'CONFLICT', details: { threadId: 'thread', namespace: '' } }]);
    const { values } = await echoGraph(saver).getState(ROOT);
    expect(contents(values.messages)).toHaveLength(4);
    expect(await new CheckpointManager({ storage }).branches('lg/thread')).toHaveLength(1);
    await echoGraph(saver).invoke({ messages: [human('after')] }, ROOT);
    await storage.close();
  });

  test('[langgraph.3] a thread that two begin at once', async () => {
    const { storage } = create();
    const outcomes = await race(new SavestateSaver({ storage, onConflict: 'error' }));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await storage.deleteSession('lg/thread' as never);
    const both = await race(new SavestateSaver(storage));
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
    const found = await lines(new SavestateSaver(storage));
    expect(found).toContain('first,echo 1');
    expect(found).toContain('second,echo 1');
    await storage.close();
  });

  test('[langgraph.8] savers of two processes', async () => {
    const { storage, reopen = () => storage } = create();
    const other = reopen();
    const [here, there] = [
      new SavestateSaver({ storage, onConflict: 'error' }),
      new SavestateSaver({ storage: other, onConflict: 'error' }),
    ];
    await echoGraph(here).invoke({ messages: [human('before')] }, ROOT);
    await echoGraph(there).invoke({ messages: [human('there')] }, ROOT);
    await echoGraph(here).invoke({ messages: [human('here')] }, ROOT);
    expect((await lines(there))[0]).toBe('before,echo 1,there,echo 3,here,echo 5');
    const outcomes = await race(here, there);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await storage.close();
    await other.close();
  });
});

test.each(STORAGES)(
  '[langgraph.3] on %s a put on a checkpoint that was lost in the race goes to a branch',
  async (_, create) => {
    const saver = new SavestateSaver(create().storage);
    const root = await putValues(saver, ROOT, { n: 0 });
    const ids = [];
    for (let n = 1; n <= 4; n++) ids.push(await putValues(saver, root, { n }));
    for (const [at, config] of ids.entries()) {
      const tuple = await saver.getTuple(config);
      expect(tuple?.checkpoint.channel_values).toEqual({ n: at + 1 });
      expect(tuple?.parentConfig).toEqual(root);
    }
  },
);

test('[langgraph.3] [input.1] options are checked', () => {
  const storage = new InMemoryCheckpointStorage();
  expect(() => new SavestateSaver({ storage, onConflict: 'ignore' as never })).toThrow(
    'The option "onConflict" of SavestateSaver must be one of',
  );
  expect(() => new SavestateSaver({} as never)).toThrow('found an object with no fields. Give a storage');
  expect(() => new SavestateSaver({ storage, onConflicts: 'error' } as never)).toThrow('did you mean "onConflict"?');
  expect(() => new SavestateStore({ storage, nam: 'x' } as never)).toThrow('did you mean "name"?');
  const manager = new CheckpointManager({ storage });
  expect(() => new SavestateSaver({ manager, classes: [] } as never)).toThrow('"classes" is not an option');
});

test.each([
  ['"threads.db"', 'threads.db'],
  ['undefined', undefined],
  ['null', null],
  ['a list', []],
  ['an object with path', { path: 'threads.db' }],
  ['"threads.db"', { storage: 'threads.db' }],
])('[input.1] what is no storage is refused, and named: %s', (found, given) => {
  const refusal = { code: 'INVALID_INPUT', message: expect.stringContaining(`found ${found}. Give a storage`) };
  expect(() => new SavestateSaver(given as never)).toThrow(expect.objectContaining(refusal));
  expect(() => new SavestateStore(given as never)).toThrow(expect.objectContaining(refusal));
});
