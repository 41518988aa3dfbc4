import { Annotation, Command, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { MemorySaver } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import { checkpointOf, metadataOf, ROOT } from '../../../../test/support/langgraph.ts';
import { describeOn } from '../../../../test/support/later.ts';
import { STORAGES } from '../../../../test/support/storages.ts';
import { SavestateSaver } from './savestate-saver.ts';

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** A graph with a subgraph that asks twice, and a step that sends work to several tasks. */
function compile(checkpointer: BaseCheckpointSaver, ran: string[] = []) {
  const note = (name: string) => {
    ran.push(name);
    return { log: [name] };
  };
  const child = new StateGraph(State)
    .addNode('child1', () => note('child1'))
    .addNode('ask1', () => ({ log: [`1:${interrupt('first?')}`] }))
    .addNode('ask2', () => ({ log: [`2:${interrupt('second?')}`] }))
    .addEdge(START, 'child1')
    .addEdge('child1', 'ask1')
    .addEdge('ask1', 'ask2')
    .addEdge('ask2', END)
    .compile();
  return new StateGraph(State)
    .addNode('plan', () => note('plan'))
    .addNode('work', (input: { item?: string }) => note(`work ${input.item}`))
    .addNode('child', child)
    .addEdge(START, 'plan')
    .addConditionalEdges('plan', () => ['a', 'b', 'c'].map((item) => new Send('work', { item })))
    .addEdge('work', 'child')
    .addEdge('child', END)
    .compile({ checkpointer });
}

/** What a user does: runs, answers twice, goes back to where the first answer was given, and answers otherwise. */
async function story(open: () => BaseCheckpointSaver) {
  const ran: string[] = [];
  const outcomes: unknown[] = [];
  const graph = () => compile(open(), ran);
  outcomes.push(await graph().invoke({ log: ['start'] }, ROOT));
  const stopped = await graph().getState(ROOT, { subgraphs: true });
  outcomes.push(
    stopped.next,
    stopped.tasks.map(({ name, interrupts }) => [name, interrupts.map(({ value }) => value)]),
  );
  outcomes.push(await graph().invoke(new Command({ resume: 'one' }), ROOT));
  outcomes.push(await graph().invoke(new Command({ resume: 'two' }), ROOT));
  outcomes.push(await graph().invoke(null, stopped.config));
  outcomes.push(await graph().invoke(new Command({ resume: 'uno' }), ROOT));
  outcomes.push(await graph().invoke(new Command({ resume: 'due' }), ROOT));
  const history = [];
  for await (const { values, next, metadata } of graph().getStateHistory(ROOT))
    history.push({ values, next, metadata });
  return { ran, outcomes, history };
}

describeOn(STORAGES)('[langgraph.1] on %s runs are as with the saver of LangGraph in memory', (_, create) => {
  test.each(['branch', 'error'] as const)(
    'subgraphs, interrupts, sends and time travel (onConflict: %s)',
    async (onConflict) => {
      const { storage } = create();
      const memory = new MemorySaver();
      const expected = await story(() => memory);
      const found = await story(() => new SavestateSaver({ storage, onConflict }));
      expect(strip(found)).toEqual(strip(expected));
      const { log } = found.outcomes.at(-1) as { log: string[] };
      expect(log.slice(-3)).toEqual(['child1', '1:uno', '2:due']);
      await storage.close();
    },
  );

  test.each(['sync', 'async', 'exit'] as const)('durability %s', async (durability) => {
    const { storage } = create();
    const run = async (open: () => BaseCheckpointSaver) => {
      const config = { ...ROOT, durability };
      const first = await compile(open()).invoke({ log: ['start'] }, config);
      const second = await compile(open()).invoke(new Command({ resume: 'one' }), config);
      return [first, second, await compile(open()).invoke(new Command({ resume: 'two' }), config)];
    };
    const memory = new MemorySaver();
    expect(strip(await run(() => new SavestateSaver(storage)))).toEqual(strip(await run(() => memory)));
    await storage.close();
  });

  test('a save without a thread_id is refused no earlier', async () => {
    const { storage } = create();
    const saver = new SavestateSaver(storage);
    await compile(saver).invoke({ log: ['another run'] }, ROOT);
    const [ours, official] = [await countHops(saver), await countHops(new MemorySaver())];
    expect(ours.put).toBeGreaterThanOrEqual(official.put);
    expect(ours.putWrites).toBeGreaterThanOrEqual(official.putWrites);
    await storage.close();
  });
});

/** Promises that come to pass before saves without a `thread_id` are refused. LangGraph looks at these only when its run ends. */
async function countHops(saver: BaseCheckpointSaver) {
  const config = { configurable: { checkpoint_id: 'c' } };
  return {
    put: await hopsUntil(saver.put(config, checkpointOf({}), metadataOf(), {})),
    putWrites: await hopsUntil(saver.putWrites(config, [['a', 1]], 'task')),
  };
}

async function hopsUntil(refused: Promise<unknown>): Promise<number> {
  let isOver = false;
  const end = refused.then(
    () => expect.unreachable(),
    () => {
      isOver = true;
    },
  );
  let hops = 0;
  for (; !isOver; hops++) await Promise.resolve();
  await end;
  return hops;
}

/** Ids and times differ from run to run. */
function strip(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) =>
      key === 'id' || key === 'parents' || key === 'checkpoint_id' ? 'any' : inner,
    ),
  );
}
