// The graphs whose threads are in the databases of this folder. `library` is a copy of LangGraph: that of the saver which wrote
// them, or that of the tests which go on from them.

/** Answers every message, in two nodes, so that a turn has several checkpoints. */
export function talkGraph({ StateGraph, MessagesAnnotation, START, END, AIMessage }, checkpointer) {
  return new StateGraph(MessagesAnnotation)
    .addNode('think', () => ({}))
    .addNode('answer', ({ messages }) => ({
      messages: [
        new AIMessage({
          content: `answer ${messages.length}`,
          tool_calls: [{ name: 'look', args: { at: messages.length }, id: `call-${messages.length}`, type: 'tool_call' }],
          response_metadata: { tokens: 12 },
        }),
      ],
    }))
    .addEdge(START, 'think')
    .addEdge('think', 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer });
}

/** Asks a person before it acts. */
export function approvalGraph({ StateGraph, Annotation, START, END, interrupt }, checkpointer) {
  const State = Annotation.Root({ request: Annotation, decision: Annotation, done: Annotation });
  return new StateGraph(State)
    .addNode('ask', ({ request }) => ({ decision: interrupt({ question: `May I ${request}?` }) }))
    .addNode('act', ({ request, decision }) => ({ done: `${request}: ${decision}` }))
    .addEdge(START, 'ask')
    .addEdge('ask', 'act')
    .addEdge('act', END)
    .compile({ checkpointer });
}

/** The same inside another graph, so that its checkpoints have a namespace of their own. */
export function nestedGraph(library, checkpointer) {
  const { StateGraph, Annotation, START, END } = library;
  const State = Annotation.Root({ request: Annotation, decision: Annotation, done: Annotation, note: Annotation });
  return new StateGraph(State)
    .addNode('approve', approvalGraph(library))
    .addNode('report', ({ done }) => ({ note: `reported ${done}` }))
    .addEdge(START, 'approve')
    .addEdge('approve', 'report')
    .addEdge('report', END)
    .compile({ checkpointer });
}

/** Answers every message; the messages are a delta channel. */
export function deltaGraph({ StateGraph, StateSchema, MessagesDeltaValue, START, END, AIMessage }, checkpointer) {
  return new StateGraph(new StateSchema({ messages: MessagesDeltaValue }))
    .addNode('answer', ({ messages }) => ({ messages: [new AIMessage({ content: `answer ${messages.length}` })] }))
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer });
}

/** Puts a value into its state that LangGraph's serializer cannot write. */
export function faultyGraph({ StateGraph, Annotation, START, END }, checkpointer) {
  const State = Annotation.Root({ before: Annotation, value: Annotation, after: Annotation });
  return new StateGraph(State)
    .addNode('first', () => ({ before: 'first' }))
    .addNode('fail', () => ({ value: { count: 12n } }))
    .addNode('last', () => ({ after: 'last' }))
    .addEdge(START, 'first')
    .addEdge('first', 'fail')
    .addEdge('fail', 'last')
    .addEdge('last', END)
    .compile({ checkpointer });
}

const thread = (id) => ({ configurable: { thread_id: id }, durability: 'sync' });

/** Runs all of them on one saver. */
export async function writeThreads(library, saver) {
  await talk(library, saver);
  await approvalGraph(library, saver).invoke({ request: 'delete the files' }, thread('approval'));
  await nestedGraph(library, saver).invoke({ request: 'send the letter' }, thread('nested'));
  await delta(library, saver);
  await faultyGraph(library, saver).invoke({}, thread('faulty')).catch(() => undefined);
  await strayWrites(saver);
}

/** Three turns; two other ways on from the end of the first, of which the second is followed. */
async function talk(library, saver) {
  const { HumanMessage } = library;
  const graph = talkGraph(library, saver);
  await graph.invoke({ messages: [new HumanMessage('one')] }, thread('talk'));
  const { config } = await graph.getState(thread('talk'));
  await graph.invoke({ messages: [new HumanMessage('two')] }, thread('talk'));
  await graph.invoke({ messages: [new HumanMessage('three')] }, thread('talk'));
  await graph.updateState(config, { messages: [new HumanMessage('left')] }, 'answer');
  const right = await graph.updateState(config, { messages: [new HumanMessage('right')] }, 'answer');
  await graph.invoke({ messages: [new HumanMessage('and on')] }, { ...right, durability: 'sync' });
}

/** Two turns, and another way on from the end of the first. */
async function delta(library, saver) {
  const { HumanMessage } = library;
  const graph = deltaGraph(library, saver);
  await graph.invoke({ messages: [new HumanMessage('one')] }, thread('delta'));
  const { config } = await graph.getState(thread('delta'));
  await graph.invoke({ messages: [new HumanMessage('two')] }, thread('delta'));
  await graph.updateState(config, { messages: [new HumanMessage('other')] }, 'answer');
}

/** A process that died between the writes of a task and the checkpoint they belong to. */
async function strayWrites(saver) {
  const checkpoint = {
    v: 4,
    id: '1f0c3000-0000-6000-8000-000000000001',
    ts: '2026-11-16T00:00:00.000Z',
    channel_values: { note: 'kept' },
    channel_versions: { note: 1 },
    versions_seen: {},
  };
  const config = { configurable: { thread_id: 'stray', checkpoint_ns: '' } };
  const metadata = { source: 'input', step: -1, parents: {} };
  const stored = await saver.put(config, checkpoint, metadata, { note: 1 });
  await saver.putWrites(stored, [['bytes', new Uint8Array([0, 255, 7])], ['text', 'seven']], 'task-1');
  const unknown = { configurable: { ...config.configurable, checkpoint_id: '1f0c3000-0000-6000-8000-000000000002' } };
  await saver.putWrites(unknown, [['text', 'lost']], 'task-2');
}
