import { type BaseMessage, HumanMessage } from '@langchain/core/messages';
import type { RunnableConfig } from '@langchain/core/runnables';
import {
  Annotation,
  DeltaValue,
  END,
  MessagesAnnotation,
  MessagesDeltaValue,
  START,
  StateGraph,
  StateSchema,
} from '@langchain/langgraph';
import {
  type BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  uuid6,
} from '@langchain/langgraph-checkpoint';

export const ROOT: RunnableConfig = { configurable: { thread_id: 'thread', checkpoint_ns: '' } };

/** A config of one thread. */
export function threadConfig(threadId: string, checkpointId?: string): RunnableConfig {
  return {
    configurable: { thread_id: threadId, checkpoint_ns: '', ...(checkpointId && { checkpoint_id: checkpointId }) },
  };
}

/** A checkpoint with these values, each channel at the given version. */
export function checkpointOf(values: { [channel: string]: unknown }, options: Partial<Checkpoint> = {}): Checkpoint {
  return {
    v: 4,
    id: uuid6(0),
    ts: '2026-11-16T00:00:00.000Z',
    channel_values: values,
    channel_versions: Object.fromEntries(Object.keys(values).map((channel) => [channel, 1])),
    versions_seen: {},
    ...options,
  };
}

export function metadataOf(source: CheckpointMetadata['source'] = 'loop', step = 0): CheckpointMetadata {
  return { source, step, parents: {} };
}

/** Puts values as a checkpoint whose channels are all new. */
export function putValues(
  saver: BaseCheckpointSaver,
  config: RunnableConfig,
  values: { [channel: string]: unknown },
): Promise<RunnableConfig> {
  const checkpoint = checkpointOf(values);
  return saver.put(config, checkpoint, metadataOf(), checkpoint.channel_versions);
}

export async function tuples(saver: BaseCheckpointSaver, config = ROOT, options = {}): Promise<CheckpointTuple[]> {
  const found: CheckpointTuple[] = [];
  for await (const tuple of saver.list(config, options)) found.push(tuple);
  return found;
}

/** A graph that answers every message with `echo <n>`, in two nodes, so that a turn has several checkpoints. */
export function echoGraph(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(MessagesAnnotation)
    .addNode('think', () => ({}))
    .addNode('answer', ({ messages }) => ({ messages: [new HumanMessage({ content: `echo ${messages.length}` })] }))
    .addEdge(START, 'think')
    .addEdge('think', 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer });
}

/** A graph with one channel of any value. */
export function valueGraph(checkpointer: BaseCheckpointSaver, value: unknown) {
  const State = Annotation.Root({ value: Annotation<unknown>, note: Annotation<string> });
  return new StateGraph(State)
    .addNode('write', () => ({ value }))
    .addNode('after', () => ({ note: 'after' }))
    .addEdge(START, 'write')
    .addEdge('write', 'after')
    .addEdge('after', END)
    .compile({ checkpointer });
}

export const contents = (messages: readonly BaseMessage[]): unknown[] => messages.map(({ content }) => content);

/** Every message is answered; the messages are a delta channel. */
export function deltaGraph(checkpointer: BaseCheckpointSaver, snapshotFrequency = 1000) {
  const { valueSchema, inputSchema, reducer } = MessagesDeltaValue;
  const messages = new DeltaValue(valueSchema, { inputSchema, reducer, snapshotFrequency });
  return new StateGraph(new StateSchema({ messages }))
    .addNode('answer', (state) => ({ messages: [new HumanMessage(`echo ${state.messages.length}`)] }))
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer });
}
