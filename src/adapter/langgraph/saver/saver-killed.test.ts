import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { HumanMessage } from '@langchain/core/messages';
import { Annotation, Command, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import type { CheckpointTuple } from '@langchain/langgraph-checkpoint';
import { describe, expect, onTestFinished, test } from 'vitest';
import { echoGraph, ROOT, tuples } from '../../../../test/support/langgraph.ts';
import { builtFolder } from '../../../../test/support/on-demand.ts';
import { temporaryFolder } from '../../../../test/support/storages.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../../storage/sqlite/sqlite-storage.ts';
import { SavestateSaver } from './savestate-saver.ts';

/** The child runs the compiled package, which `npm test` builds first. */
const DIST = pathToFileURL(`${builtFolder()}/`);

const CHILD = `
  import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
  import { SavestateSaver } from '${DIST}adapter/langgraph/index.js';
  import { SqliteCheckpointStorage } from '${DIST}storage/sqlite/sqlite-storage.js';
  const log = Annotation({ reducer: (a, b) => [...a, ...b], default: () => [] });
  const graph = new StateGraph(Annotation.Root({ log }))
    .addNode('first', () => ({ log: ['first'] }))
    .addNode('hangs', () => new Promise(() => setInterval(() => {}, 1000)))
    .addNode('beside', () => ({ log: ['beside'] }))
    .addNode('approve', () => ({}))
    .addEdge(START, 'first').addEdge('first', 'hangs').addEdge('first', 'beside')
    .addEdge('hangs', 'approve').addEdge('beside', 'approve').addEdge('approve', END)
    .compile({ checkpointer: new SavestateSaver(new SqliteCheckpointStorage({ path: process.argv[1] })) });
  await graph.invoke({ log: [] }, { configurable: { thread_id: 'thread' } });`;

test('[langgraph.1] a graph whose process was killed goes on where it was, and runs nothing again that had finished', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD, path], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const storage = new SqliteCheckpointStorage({ path });
  onTestFinished(() => storage.close());
  const saver = new SavestateSaver(storage);
  while (!isBesideDone(await saver.getTuple(ROOT))) {
    expect(child.exitCode).toBeNull();
    await wait(20);
  }
  child.kill('SIGKILL');
  await once(child, 'exit');

  const ran: string[] = [];
  const node = (name: string) => () => {
    ran.push(name);
    return { log: [name] };
  };
  const graph = new StateGraph(
    Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) }),
  )
    .addNode('first', node('first'))
    .addNode('hangs', node('hangs'))
    .addNode('beside', node('beside'))
    .addNode('approve', () => ({ log: [`approved: ${interrupt('go on?')}`] }))
    .addEdge(START, 'first')
    .addEdge('first', 'hangs')
    .addEdge('first', 'beside')
    .addEdge('hangs', 'approve')
    .addEdge('beside', 'approve')
    .addEdge('approve', END)
    .compile({ checkpointer: saver });
  await graph.invoke(null, ROOT);
  expect(ran).toEqual(['hangs']);
  const { log } = await graph.invoke(new Command({ resume: 'yes' }), ROOT);
  expect(log.toSorted()).toEqual(['approved: yes', 'beside', 'first', 'hangs']);
  expect((await new CheckpointManager({ storage }).verify()).findings).toEqual([]);
});

const BUSY_STEPS = 60;
/** Saves of steps that may still be under way, besides what a slow machine adds. */
const BUSY_LAG = 20;

const BUSY_CHILD = `
  import { Annotation, START, StateGraph } from '@langchain/langgraph';
  import { SavestateSaver } from '${DIST}adapter/langgraph/index.js';
  import { SqliteCheckpointStorage } from '${DIST}storage/sqlite/sqlite-storage.js';
  const [, path, isInner] = process.argv;
  const checkpointer = new SavestateSaver(new SqliteCheckpointStorage({ path }));
  const State = Annotation.Root({ count: Annotation() });
  const add = ({ count }) => (count === ${BUSY_STEPS} ? process.kill(process.pid, 'SIGKILL') : { count: count + 1 });
  const busy = new StateGraph(State).addNode('add', add).addEdge(START, 'add').addConditionalEdges('add', () => 'add');
  const outer = new StateGraph(State)
    .addNode('before', () => ({ count: 0 })).addNode('inner', busy.compile())
    .addEdge(START, 'before').addEdge('before', 'inner');
  const graph = (isInner === 'true' ? outer : busy).compile({ checkpointer });
  setImmediate(() => process.exit(7));
  await graph.invoke({ count: 0 }, { configurable: { thread_id: 'thread' }, recursionLimit: 1_000 });`;

describe('[langgraph.10] a graph that never lets the event loop turn', () => {
  test('is saved while it runs', async () => {
    const saver = await runBusy(false);
    const tuple = await saver.getTuple(ROOT);
    expect(tuple?.checkpoint.channel_values.count).toBeGreaterThan(BUSY_STEPS - BUSY_LAG);
  });

  test('in another is saved with the one around it', async () => {
    const saver = await runBusy(true);
    const found = await tuples(saver, { configurable: { thread_id: 'thread' } });
    expect(found.find(({ config }) => config.configurable?.checkpoint_ns === '')?.metadata?.step).toBe(1);
    const inner = found.find(({ config }) => config.configurable?.checkpoint_ns !== '');
    expect(inner?.checkpoint.channel_values.count).toBeGreaterThan(BUSY_STEPS - BUSY_LAG);
  });
});

/** Lets a graph run in a process of its own that kills itself in the last step. */
async function runBusy(isInner: boolean): Promise<SavestateSaver> {
  const path = join(temporaryFolder(), 'test.db');
  const child = spawn(process.execPath, ['--input-type=module', '-e', BUSY_CHILD, path, String(isInner)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [code, signal] = await once(child, 'exit');
  expect({ code, signal }).toEqual({ code: null, signal: 'SIGKILL' });
  const storage = new SqliteCheckpointStorage({ path });
  onTestFinished(() => storage.close());
  return new SavestateSaver(storage);
}

test('[langgraph.13] a saver that knows a thread goes on with it after another process redacted it', async () => {
  const path = join(temporaryFolder(), 'test.db');
  const storage = new SqliteCheckpointStorage({ path });
  onTestFinished(() => storage.close());
  const graph = echoGraph(new SavestateSaver(storage));
  for (const text of [`my SECRET-WORD ${'and more '.repeat(500)}`, 'two', 'three'])
    await graph.invoke({ messages: [new HumanMessage(text)] }, ROOT);
  const redact = ['redact', '--storage', path, '-s', 'lg/thread', '--pattern', 'SECRET-WORD', '--yes'];
  execFileSync(process.execPath, [fileURLToPath(new URL('cli/main.js', DIST)), ...redact]);
  await graph.invoke({ messages: [new HumanMessage('four')] }, ROOT);
  const found = await tuples(new SavestateSaver(storage));
  expect(JSON.stringify(found.map(({ checkpoint }) => checkpoint))).not.toContain('SECRET-WORD');
  expect((await new CheckpointManager({ storage }).verify()).findings).toEqual([]);
});

/** Whether the run is at the step with the node that hangs, and the one beside it has written. */
function isBesideDone(tuple: CheckpointTuple | undefined): boolean {
  const hasWritten = tuple?.pendingWrites?.some(([, channel]) => channel === 'log') === true;
  return hasWritten && tuple?.metadata?.step === 1;
}
