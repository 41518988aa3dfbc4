import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { Annotation, Command, END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { describe, expect, test } from 'vitest';
import { SavestateSaver } from '../../src/adapter/langgraph/saver/savestate-saver.ts';
import { SavestateStore } from '../../src/adapter/langgraph/store/savestate-store.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { contents, echoGraph, putValues, threadConfig } from '../support/langgraph.ts';
import { SQLITE_FILE } from '../support/official-savers.ts';
import { json, ok, run } from './support/cli.ts';
import { DATABASE } from './support/fixture.ts';
import { copiesOf, newFolder } from './support/folder.ts';

const QUESTIONS = ['where is it', 'I want a refund', 'thank you'];
const FIRST = 'channel_values.messages[0]';

async function withStorage<Result>(folder: string, work: (storage: SqliteCheckpointStorage) => Promise<Result>) {
  const storage = new SqliteCheckpointStorage({ path: join(folder, DATABASE), durability: 'process' });
  try {
    return await work(storage);
  } finally {
    await storage.close();
  }
}

const Desk = Annotation.Root({
  ...MessagesAnnotation.spec,
  notes: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** An agent that asks before it refunds, with a subgraph that greets. */
function deskGraph(checkpointer: SavestateSaver, store: SavestateStore) {
  const greet = new StateGraph(Desk)
    .addNode('note', () => ({ notes: [] }))
    .addEdge(START, 'note')
    .compile();
  return new StateGraph(Desk)
    .addNode('greet', greet)
    .addNode('agent', ({ messages }) => {
      const last = messages.at(-1);
      const calls = [{ name: 'refund', args: { order: 7 }, id: 'c' }];
      return last?.getType() === 'tool'
        ? { messages: [new AIMessage(`It said: ${last.text}`)] }
        : { messages: [new AIMessage({ content: '', tool_calls: calls })] };
    })
    .addNode('tools', () => {
      interrupt('Refund 7?');
      return { messages: [new ToolMessage({ content: 'refunded 7', tool_call_id: 'c', name: 'refund' })] };
    })
    .addEdge(START, 'greet')
    .addEdge('greet', 'agent')
    .addConditionalEdges('agent', ({ messages }) => (messages.length > 3 ? END : 'tools'), ['tools', END])
    .addEdge('tools', 'agent')
    .compile({ checkpointer, store });
}

/** Two threads, one that was answered and one that waits, and a store that was saved to last. */
const newDesk = copiesOf(async () => {
  const folder = newFolder();
  mkdirSync(join(folder, '.savestate'));
  await withStorage(folder, async (storage) => {
    const store = new SavestateStore(storage);
    const graph = deskGraph(new SavestateSaver(storage), store);
    const begin = (thread: string) =>
      graph.invoke({ messages: [new HumanMessage('I want a refund')] }, threadConfig(thread));
    await begin('ann');
    await graph.invoke(new Command({ resume: 'yes' }), threadConfig('ann'));
    await graph.updateState(threadConfig('ann'), { notes: ['by hand'] }, 'agent');
    await begin('bob');
    await store.put(['users'], 'pets', { text: 'two cats' });
  });
  return folder;
});

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
  test('[langgraph.23] is looked at: log, show, diff, bisect', async () => {
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

  test('[langgraph.23] a field of a message is changed by its path, or in the editor; a path beside it is refused', async () => {
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

  test('[langgraph.12] a move says that the graph does not follow, and how it does', async () => {
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

  test('[langgraph.23] is exported, thinned out and checked, and the graph goes on', async () => {
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

  test('[langgraph.23] is told step by step: node, words, calls, questions and other channels', async () => {
    const folder = await newDesk();
    const log = await ok(['log', '-s', 'ann'], { folder });
    const lines = log.trimEnd().split('\n');
    expect(lines).toHaveLength(7);
    expect(lines[0]).toMatch(/\(main\) step 5 update notes \+ "by hand"$/);
    expect(lines[1]).toMatch(/step 4 agent ai: It said: refunded 7$/);
    expect(lines[2]).toMatch(/step 3 tools tool refund: refunded 7$/);
    expect(lines[3]).toContain('step 2 agent ai: [call] refund({"order":7}); asked: Refund 7? answered: yes');
    expect(lines[5]).toMatch(/step 0 start human: I want a refund$/);
    const waiting = await ok(['log', '-n', '1', '--oneline', '-s', 'bob'], { folder });
    expect(waiting).toContain('waits for an answer: Refund 7?');
    const shown = await ok(['show', '-s', 'ann'], { folder });
    expect(shown).toContain('[3] ai: It said: refunded 7');
    expect(shown).toContain('"by hand"');
    expect(shown).not.toContain('versions_seen');
    expect(await ok(['show', '--raw', '-s', 'ann'], { folder })).toContain('"versions_seen"');
  });

  test('[cli.8] a difference is what was said; the rest is counted, or shown with --all', async () => {
    const folder = await newDesk();
    const diff = await ok(['diff', '@~2', '@~1', '-s', 'ann'], { folder });
    expect(diff).toContain('+ [3] ai: It said: refunded 7');
    expect(diff).toMatch(/\d+ bookkeeping changes not shown/);
    expect(diff).not.toMatch(/channel_versions|versions_seen|\$\.ts/);
    expect(await ok(['diff', '#1', '#2', '-s', 'ann'], { folder })).toContain('+ [0] human: I want a refund'); // a list that is new
    expect(await ok(['diff', '@~2', '@~1', '--all', '-s', 'ann'], { folder })).toContain('$.versions_seen');
  });

  test('[cli.9] a message is found once; where nothing is found, it says where it would be', async () => {
    const folder = await newDesk();
    expect(await json('grep', ['I want a refund', '-s', 'ann'], { folder })).toHaveLength(1);
    const none = await run(['grep', 'two cats'], { folder });
    expect(none).toMatchObject({ code: 13, stdout: '' });
    expect(none.stderr).toContain('Nothing matches in session "lg/bob"');
    expect(none.stderr).toContain('--session lg-store/default');
  });

  test('[langgraph.23] is the default where a store was saved last, is named by its id, and holds its subgraphs', async () => {
    const folder = await newDesk();
    expect((await json('log', ['-n', '1'], { folder }))[0]?.sessionId).toBe('lg/bob');
    expect((await json('log', ['-n', '1', '-s', 'ann'], { folder }))[0]?.sessionId).toBe('lg/ann');
    expect((await run(['log', '-s', 'eve'], { folder })).stderr).toContain('no session "eve"');
    const sessions = await json('sessions', [], { folder });
    expect(sessions.map(({ id }) => id)).toEqual(['lg-store/default', 'lg/bob', 'lg/ann']);
    expect(sessions[2]?.subgraphs).toHaveLength(1);
    expect(await json('sessions', ['--all'], { folder })).toHaveLength(5);
  });

  test('[cli.15] is forgotten with its subgraphs', async () => {
    const folder = await newDesk();
    const all = (await json('sessions', ['--all'], { folder })).map(({ id }) => id);
    const planned = await json('forget', ['--whole-session', 'ann', '--dry-run'], { folder });
    expect(planned.sessions).toEqual(all.filter((id) => /^lg\/ann(\/|$)/.test(id)).toSorted());
    expect(planned.sessions.length).toBeGreaterThan(1);
    const gone = await json('forget', ['--whole-session', 'ann', '--yes'], { folder });
    expect(gone).toMatchObject({ checkpoints: planned.checkpoints, sessions: planned.sessions });
    const left = (await json('sessions', ['--all'], { folder })).map(({ id }) => id);
    expect(left).toEqual(all.filter((id) => !planned.sessions.includes(id)));
  });

  test('[langgraph.12] "resume" and "continue" name the call that lets the graph go on', async () => {
    const folder = await newDesk();
    const back = await run(['resume', '@~2', '-s', 'ann'], { folder });
    expect(back.code).toBe(15);
    expect(back.stderr).toMatch(
      /graph\.invoke\(null, \{"configurable":\{"thread_id":"ann","checkpoint_ns":"","checkpoint_id":"/,
    );
    const waiting = await run(['continue', '-s', 'bob'], { folder });
    expect(waiting.code).toBe(15);
    expect(waiting.stderr).toContain('waits for an answer: Refund 7?');
    expect(waiting.stderr).toContain(
      'graph.invoke(new Command({ resume: answer }), {"configurable":{"thread_id":"bob"',
    );
  });

  test('[cli.27] is watched for drift', async () => {
    const folder = newFolder();
    mkdirSync(join(folder, '.savestate'));
    await withStorage(folder, async (storage) => {
      let config = threadConfig('stuck');
      const messages: BaseMessage[] = [new HumanMessage('Find the order')];
      for (let n = 0; n < 30; n++) {
        messages.push(new AIMessage({ content: '', tool_calls: [{ name: 'find', args: { id: 1 }, id: `c${n}` }] }));
        messages.push(new ToolMessage({ content: 'nothing', tool_call_id: `c${n}`, name: 'find' }));
        config = await putValues(new SavestateSaver(storage), config, { messages });
      }
    });
    const found = await json('drift', ['stuck'], { folder });
    expect(found.status).toBe('drifting');
    expect(found.points).toHaveLength(30);
  });

  test('[langgraph.23] is imported by "savestate langgraph import"', async () => {
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
