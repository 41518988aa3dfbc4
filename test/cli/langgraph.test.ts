import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HumanMessage } from '@langchain/core/messages';
import { describe, expect, test } from 'vitest';
import { SavestateSaver } from '../../src/adapter/langgraph/savestate-saver.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { contents, echoGraph, threadConfig } from '../support/langgraph.ts';
import { SQLITE_FILE } from '../support/official-savers.ts';
import { json, ok, run } from './support/cli.ts';
import { DATABASE } from './support/fixture.ts';
import { copiesOf, newFolder } from './support/folder.ts';

const QUESTIONS = ['where is it', 'I want a refund', 'thank you'];
const FIRST = 'channel_values.messages[0]';

async function withGraph<Result>(folder: string, work: (graph: ReturnType<typeof echoGraph>) => Promise<Result>) {
  const storage = new SqliteCheckpointStorage({ path: join(folder, DATABASE), durability: 'process' });
  try {
    return await work(echoGraph(new SavestateSaver(storage)));
  } finally {
    await storage.close();
  }
}

/** A folder whose storage holds one thread of a graph: three turns, with four checkpoints each. */
const newThread = copiesOf(async () => {
  const folder = newFolder();
  mkdirSync(join(folder, '.savestate'));
  await withGraph(folder, async (graph) => {
    for (const content of QUESTIONS)
      await graph.invoke({ messages: [new HumanMessage({ content, id: content })] }, threadConfig('order'));
  });
  return folder;
});

describe.concurrent('a thread of LangGraph', () => {
  test('[A86] is looked at: log, show, diff, bisect', async () => {
    const folder = await newThread();
    const log = await json('log', [], { folder });
    expect(log).toHaveLength(12);
    const steps = log.map(({ metadata }) => metadata?.step);
    expect(steps).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1]);
    const ids = await withGraph(folder, async (graph) => {
      const found: unknown[] = [];
      for await (const { config } of graph.getStateHistory(threadConfig('order')))
        found.push(config.configurable?.checkpoint_id);
      return found;
    });
    expect(log.map(({ metadata }) => metadata?.langgraph)).toMatchObject(ids.map((id) => ({ id })));
    expect(await ok(['show', `@:${FIRST}.data.content`], { folder })).toContain('where is it');
    const { added } = await json('diff', ['@~1', '@'], { folder });
    expect(added.map(({ path }) => path)).toContain('$.channel_values.messages[5]');
    const isRefund = `contains(state.channel_values.messages[*].data.content, 'refund')`;
    const found = await json('bisect', ['run', '--where', isRefund], { folder });
    expect(found).toMatchObject({ status: 'found', firstBad: { metadata: { step: 4 } } });
  });

  test('[A84] a field of a message is changed by its path, or in the editor; a path beside it is refused', async () => {
    const folder = await newThread();
    const refused = await run(['fork', '@', '--set', `${FIRST}.content="edited"`], { folder });
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain(`Set $.${FIRST}.data.content instead`);
    await ok(['fork', '@', '-b', 'by-path', '--set', `${FIRST}.data.content="edited"`], { folder });
    expect(await ok(['show', `by-path:${FIRST}.data.content`], { folder })).toContain('edited');
    const env = { EDITOR: `sed -i.before 's/where is it/written/'` };
    await ok(['fork', '@', '-b', 'by-hand', '--edit'], { folder, env });
    expect(await ok(['show', `by-hand:${FIRST}.data.content`], { folder })).toContain('written');
  });

  test('[A85] a move says that the graph does not follow, and how it does', async () => {
    const folder = await newThread();
    const { stderr } = await run(['rewind', '@~4', '-b', 'back'], { folder });
    expect(stderr).toContain('LangGraph does not follow branches');
    const [, config = '{}'] = /graph\.invoke\(null, (\{.*\})\)/.exec(stderr) ?? [];
    const forked = await run(['fork', '@', '-b', 'edit', '--set', 'channel_values.note="x"'], { folder });
    expect(forked.stderr).toContain(`graph.updateState(${config}, values)`);
    const switched = await run(['switch', 'edit'], { folder });
    expect(switched.stderr).toContain('LangGraph does not follow branches');
    expect(switched.stderr).not.toContain('graph.invoke');
    await withGraph(folder, async (graph) => {
      const latest = await graph.getState(threadConfig('order'));
      expect(contents(latest.values.messages)).toHaveLength(6);
      const there = await graph.getState(JSON.parse(config));
      expect(contents(there.values.messages)).toEqual(['where is it', 'echo 1', 'I want a refund', 'echo 3']);
    });
  });

  test('[A86] is exported, thinned out and checked, and the graph goes on', async () => {
    const folder = await newThread();
    await ok(['export', '-o', 'thread.jsonl'], { folder });
    const other = newFolder();
    await ok(['import', join(folder, 'thread.jsonl'), '--storage', 'copy.db'], { folder: other });
    expect(await json('log', ['--storage', 'copy.db'], { folder: other })).toEqual(await json('log', [], { folder }));
    await ok(['prune', '--keep-last', '1', '--yes'], { folder });
    await ok(['gc'], { folder });
    expect(await json('verify', ['--read-data'], { folder })).toMatchObject({ status: 'clean', checkpoints: 1 });
    const { messages } = await withGraph(folder, (graph) =>
      graph.invoke({ messages: [new HumanMessage('more')] }, threadConfig('order')),
    );
    expect(contents(messages).slice(-3)).toEqual(['echo 5', 'more', 'echo 7']);
  });

  test('[A57] is imported by "savestate langgraph import"', async () => {
    const folder = newFolder();
    const args = ['import', SQLITE_FILE, '--to', 'threads.db', '--threads', 'approval'];
    expect(await ok(['langgraph', ...args], { folder })).toMatch(/^Imported \d+ checkpoints/);
    writeFileSync(join(folder, 'notes.txt'), 'no database');
    const failed = await run(['langgraph', 'export', 'threads.db', '--to', 'notes.txt'], { folder });
    expect(failed).toMatchObject({ code: 2, stdout: '' });
    expect(failed.stderr).toMatch(
      /^error: Threads cannot be exported to .*notes\.txt: it is not a SQLite database\. Nothing was written/,
    );
    expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('no database');
  });
});
