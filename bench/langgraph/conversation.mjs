import { randomUUID } from 'node:crypto';
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { uuid6 } from '@langchain/langgraph-checkpoint';
import { createMessage } from '../messages.mjs';

/** The bench's own messages as LangChain's: about 600 bytes, every fifth a tool result of 4 KB. */
export function createGraphMessage(index, seed = 1) {
  const { id, role, content } = createMessage(index, seed);
  if (role === 'tool') return new ToolMessage({ id, content, name: 'search', tool_call_id: `call_${index}` });
  return role === 'user' ? new HumanMessage({ id, content }) : new AIMessage({ id, content });
}

/**
 * A thread that grows by a message a turn, calling a saver as LangGraph's loop does for a graph of one node: the task's writes, then
 * the checkpoint, which has a new array of the same message objects.
 */
export class GrowingThread {
  #config;
  #messages = [];
  #saver;
  #seed;

  constructor(saver, threadId, seed) {
    this.#saver = saver;
    this.#seed = seed;
    this.#config = { configurable: { thread_id: threadId, checkpoint_ns: '' } };
  }

  get length() {
    return this.#messages.length;
  }

  /** The checkpoint that a run begins with. */
  async begin() {
    const checkpoint = createCheckpoint({ step: -1, values: { __start__: { messages: [] } } });
    this.#config = await this.#saver.put(this.#config, checkpoint, metadataOf('input', -1), { __start__: 1 });
  }

  /** A thread that has so many messages already, all of them in its first checkpoint. */
  async beginWith(count) {
    await this.begin();
    this.#messages = Array.from({ length: count - 1 }, (_, at) => createGraphMessage(at, this.#seed));
    await this.save(this.prepare());
  }

  /** What the next turn will save, made before its clock starts. */
  prepare() {
    const step = this.#messages.length;
    const message = createGraphMessage(step, this.#seed);
    this.#messages = [...this.#messages, message];
    const values = { messages: this.#messages, 'branch:to:agent': null };
    return {
      taskId: randomUUID(),
      writes: [
        ['messages', [message]],
        ['branch:to:agent', null],
      ],
      checkpoint: createCheckpoint({ step, values }),
      metadata: metadataOf('loop', step),
      newVersions: { messages: step + 2, 'branch:to:agent': step + 2 },
    };
  }

  /** LangGraph waits for the checkpoint before, and for nothing else. */
  async save({ taskId, writes, checkpoint, metadata, newVersions }) {
    const written = this.#saver.putWrites(this.#config, writes, taskId);
    [this.#config] = await Promise.all([this.#saver.put(this.#config, checkpoint, metadata, newVersions), written]);
  }
}

function createCheckpoint({ step, values }) {
  const version = step + 2;
  return {
    v: 4,
    id: uuid6(step),
    ts: new Date().toISOString(),
    channel_values: values,
    channel_versions: step < 0 ? { __start__: 1 } : { __start__: 2, messages: version, 'branch:to:agent': version },
    versions_seen: { __input__: {}, __start__: { __start__: 1 }, agent: { 'branch:to:agent': version - 1 } },
  };
}

function metadataOf(source, step) {
  return { source, step, parents: {} };
}
