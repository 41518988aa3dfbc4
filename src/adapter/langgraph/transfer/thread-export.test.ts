import { AIMessage, HumanMessage } from '@langchain/core/messages';
import { Command, Send } from '@langchain/langgraph';
import { type CheckpointTuple, MemorySaver } from '@langchain/langgraph-checkpoint';
import { describe, expect, test } from 'vitest';
import { approvalGraph, deltaGraph, talkGraph, writeThreads } from '../../../../test/golden/langgraph/graphs.mjs';
import { contents, putValues, threadConfig, tuples } from '../../../../test/support/langgraph.ts';
import { LIBRARY } from '../../../../test/support/official-savers.ts';
import { VersionedSaver } from '../../../../test/support/versioned-saver.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';
import { exportThreads } from './thread-export.ts';
import { importThreads } from './thread-import.ts';

const thread = (id: string) => ({ configurable: { thread_id: id } });
const THREADS = ['talk', 'approval', 'nested', 'delta'];

/** Threads that graphs saved with ours. */
async function ownThreads() {
  const storage = new InMemoryCheckpointStorage();
  const saver = new SavestateSaver(storage);
  await writeThreads(LIBRARY, saver);
  return { saver };
}

const byTask = ({ pendingWrites = [] }: CheckpointTuple) =>
  pendingWrites.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));

describe('[langgraph.22] exported threads', () => {
  test('give equal tuples in the official saver, and the report counts them', async () => {
    const { saver } = await ownThreads();
    const target = new MemorySaver();
    const seen: number[] = [];
    const report = await exportThreads(saver, target, {
      threads: THREADS,
      onProgress: ({ checkpointsDone }) => seen.push(checkpointsDone),
    });
    expect(report).toMatchObject({ threads: 4, present: 0, skipped: [] });
    expect(seen).toHaveLength(report.checkpoints);
    for (const threadId of THREADS) {
      const ours = await tuples(saver, thread(threadId));
      expect(await tuples(target, thread(threadId))).toHaveLength(ours.length);
      for (const tuple of ours) {
        const theirs = await target.getTuple(tuple.config);
        expect(theirs?.checkpoint).toEqual(tuple.checkpoint);
        expect(theirs?.metadata).toEqual(tuple.metadata);
        expect(theirs?.parentConfig).toEqual(tuple.parentConfig);
        if (threadId !== 'delta') expect(theirs && byTask(theirs)).toEqual(byTask(tuple));
      }
    }
  });

  test('are gone on from there, and come back', async () => {
    const { saver } = await ownThreads();
    const target = new MemorySaver();
    await exportThreads(saver, target, { threads: THREADS });
    const answered = await approvalGraph(LIBRARY, target).invoke(new Command({ resume: 'yes' }), thread('approval'));
    expect(answered.done).toBe('delete the files: yes');
    const { messages } = await talkGraph(LIBRARY, target).invoke(
      { messages: [new HumanMessage('more')] },
      thread('talk'),
    );
    expect(contents(messages).slice(-2)).toEqual(['more', 'answer 6']);

    const report = await importThreads(target, saver, { threads: ['approval', 'talk'] });
    expect(report.present).toBeGreaterThan(10);
    expect((await approvalGraph(LIBRARY, saver).getState(thread('approval'))).values.done).toBe(
      'delete the files: yes',
    );
    expect(contents((await talkGraph(LIBRARY, saver).getState(thread('talk'))).values.messages).at(-1)).toBe(
      'answer 6',
    );
  });

  test('keep the values of forks, also in a saver that keeps one value for each version', async () => {
    const { saver } = await ownThreads();
    const target = new VersionedSaver();
    const report = await exportThreads(saver, target, { threads: ['talk', 'delta'] });
    expect(report.lossy.map(({ threadId, channel }) => `${threadId} ${channel}`)).toEqual([
      'delta messages',
      'delta messages',
    ]);
    expect(report.lossy[0]?.reason).toContain('may show those of another fork');
    expect(target.dropped).toBe(0);
    for (const tuple of await tuples(saver, thread('talk')))
      expect((await target.getTuple(tuple.config))?.checkpoint.channel_values).toEqual(tuple.checkpoint.channel_values);
    const graph = talkGraph(LIBRARY, target);
    const history = [];
    for await (const { values } of graph.getStateHistory(thread('talk'))) history.push(contents(values.messages ?? []));
    expect(history[0]).toEqual(['one', 'answer 1', 'right', 'and on', 'answer 4']);
    const { messages } = await graph.invoke({ messages: [new HumanMessage('more')] }, thread('talk'));
    expect(contents(messages).slice(-2)).toEqual(['more', 'answer 6']);
  });

  test('are stored once, and an export that was stopped goes on', async () => {
    const { saver } = await ownThreads();
    const target = new VersionedSaver();
    let report: Awaited<ReturnType<typeof exportThreads>> | undefined;
    for (let runs = 1; report === undefined; runs++) {
      const controller = new AbortController();
      const onProgress = ({ checkpointsDone }: { checkpointsDone: number }) => {
        if (checkpointsDone === runs * 4) controller.abort();
      };
      report = await exportThreads(saver, target, { threads: THREADS, onProgress, signal: controller.signal }).catch(
        (error: Error) => {
          if (error.name !== 'AbortError') throw error;
          return undefined;
        },
      );
    }
    const again = await exportThreads(saver, target, { threads: THREADS });
    expect(again).toMatchObject({ checkpoints: 0, writes: 0, present: report.present + report.checkpoints });
    for (const tuple of await tuples(saver, thread('talk')))
      expect((await target.getTuple(tuple.config))?.checkpoint.channel_values).toEqual(tuple.checkpoint.channel_values);
    const delta = await deltaGraph(LIBRARY, target).getState(thread('delta'));
    expect(contents(delta.values.messages)).toContain('other');
  });
});

describe('[langgraph.22] what the official serializer does not keep', () => {
  const LOST: [name: string, lost: { readonly value: unknown; readonly path: string; readonly reason: RegExp }][] = [
    ['a Date', { value: { at: [new Date(0)] }, path: '$.at[0]', reason: /class Date into a string/ }],
    ['a URL', { value: new URL('https://example.org/'), path: '$', reason: /class URL into a string/ }],
    ['NaN', { value: { deep: { n: Number.NaN } }, path: '$.deep.n', reason: /NaN into null/ }],
    ['-0', { value: [1, -0], path: '$[1]', reason: /-0 into 0/ }],
    ['other bytes', { value: new Float32Array([1]), path: '$', reason: /Float32Array/ }],
    ['a TypeError', { value: new TypeError('no'), path: '$', reason: /TypeError into a value of class Error/ }],
    [
      'data that looks serialised',
      { value: { v: { lc: 2, type: 'undefined' } }, path: '$.v', reason: /into undefined/ },
    ],
    [
      'a Date in a message',
      {
        value: [new AIMessage({ content: 'a', additional_kwargs: { at: new Date(0) } })],
        path: '$[0].additional_kwargs.at',
        reason: /Date/,
      },
    ],
  ];

  test.each(LOST)('%s: is skipped and named, or exported and named', async (_, { value, path, reason }) => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    await putValues(saver, threadConfig('t'), { fine: 'text', value });
    await putValues(saver, threadConfig('other'), { fine: 'text' });
    const strict = new MemorySaver();
    const refused = await exportThreads(saver, strict);
    expect(refused).toMatchObject({ checkpoints: 1, lossy: [] });
    expect(refused.skipped).toMatchObject([
      { threadId: 't', channel: 'value', path, reason: expect.stringMatching(reason) },
    ]);
    expect(await tuples(strict, thread('t'))).toEqual([]);
    const target = new MemorySaver();
    const loose = await exportThreads(saver, target, { allowLossy: true });
    expect(loose).toMatchObject({ checkpoints: 2, skipped: [] });
    expect(loose.lossy).toMatchObject([{ threadId: 't', channel: 'value', path }]);
    const again = await exportThreads(saver, target);
    expect(again).toMatchObject({ checkpoints: 0, present: 2, skipped: [], lossy: [] });
  });

  test('a BigInt would destroy the checkpoint, so it is never exported', async () => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const config = await putValues(saver, threadConfig('t'), { list: [1, { deep: 1n }] });
    await saver.putWrites(config, [['write', { n: 2n }]], 'task');
    const target = new MemorySaver();
    const report = await exportThreads(saver, target, { allowLossy: true });
    expect(report.skipped).toMatchObject([
      { channel: 'list', path: '$[1].deep', reason: expect.stringContaining('a bigint') },
    ]);
    expect(await tuples(target, {})).toEqual([]);
  });

  test('everything else is exported as it is', async () => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const values = {
      map: new Map<unknown, unknown>([['a', new Set([1, { b: 2 }])]]),
      bytes: new Uint8Array([0, 255]),
      error: new Error('plain'),
      pattern: /a+/giu,
      hole: { there: undefined },
      list: [undefined, null, 'é\u0000\ud800'],
      messages: [
        new HumanMessage({ content: 'hello', id: 'm1', name: 'ann' }),
        new AIMessage({
          content: [{ type: 'text', text: 'x' }],
          tool_calls: [{ name: 'f', args: { a: 1 }, id: 'c1' }],
        }),
      ],
    };
    const config = await putValues(saver, threadConfig('t'), values);
    await saver.putWrites(config, [['tasks', new Send('node', { a: 1 })]], 'task');
    const target = new MemorySaver();
    const report = await exportThreads(saver, target);
    expect(report).toMatchObject({ checkpoints: 1, writes: 1, skipped: [], lossy: [] });
    expect((await target.getTuple(config))?.checkpoint.channel_values).toEqual(
      (await saver.getTuple(config))?.checkpoint.channel_values,
    );
  });

  test('a write that is bytes by itself cannot be read back there', async () => {
    const saver = new SavestateSaver(new InMemoryCheckpointStorage());
    const config = await putValues(saver, threadConfig('t'), { fine: 'text' });
    await saver.putWrites(config, [['bytes', new Uint8Array([1])]], 'task');
    expect((await exportThreads(saver, new MemorySaver())).skipped).toMatchObject([{ channel: 'bytes', path: '$' }]);
  });
});

test('[langgraph.22] a saver that fails says so in our words', async () => {
  const saver = new SavestateSaver(new InMemoryCheckpointStorage());
  await putValues(saver, threadConfig('t'), { fine: 'text' });
  const target = new MemorySaver();
  target.put = async () => {
    throw new Error('disk full');
  };
  await expect(exportThreads(saver, target)).rejects.toMatchObject({
    code: 'STORAGE',
    message: expect.stringContaining('disk full'),
  });
  await expect(exportThreads(target as never, target)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await expect(importThreads(target, target as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});

test('[langgraph.21] what was there already is not looked at again', async () => {
  const { saver } = await ownThreads();
  const target = new MemorySaver();
  const first = await exportThreads(saver, target, { threads: THREADS });
  expect(first.lossy).toMatchObject([{ threadId: 'delta', reason: expect.stringContaining('of all forks') }, {}]);
  const again = await exportThreads(saver, target, { threads: THREADS });
  expect(again).toMatchObject({ checkpoints: 0, present: first.checkpoints, lossy: [] });
});

test('[langgraph.19] an option that is not there is refused before anything is read', async () => {
  const saver = new SavestateSaver(new InMemoryCheckpointStorage());
  const wrong = { thread: ['t'] } as object;
  await expect(exportThreads(saver, new MemorySaver(), wrong)).rejects.toThrow(/thread.*threads/);
  await expect(importThreads(new MemorySaver(), saver, wrong)).rejects.toThrow(/thread.*threads/);
});
