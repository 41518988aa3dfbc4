import { HumanMessage } from '@langchain/core/messages';
import { type Checkpoint, type CheckpointTuple, uuid6 } from '@langchain/langgraph-checkpoint';
import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';

const thread = { configurable: { thread_id: 't', checkpoint_ns: '' } };

function checkpointOf(step: number, messages: readonly HumanMessage[]): Checkpoint {
  return {
    v: 4,
    id: uuid6(step),
    ts: new Date(step).toISOString(),
    channel_values: { messages },
    channel_versions: { messages: step + 1 },
    versions_seen: {},
  };
}

/** A thread that grew by a message a step, in a storage that a saver was just opened on. */
async function openHistory(steps: number): Promise<SavestateSaver> {
  const storage = new InMemoryCheckpointStorage();
  const saver = new SavestateSaver(storage);
  let config: object = thread;
  for (let step = 0; step < steps; step++) {
    const messages = Array.from({ length: step + 1 }, (_, at) => {
      const additional_kwargs = { at: [at] };
      return new HumanMessage({ id: `${at}`, content: `message ${at} `.repeat(20), additional_kwargs });
    });
    const put = [checkpointOf(step, messages), { source: 'loop', step, parents: {} }, { messages: step + 1 }] as const;
    config = await saver.put(config, ...put);
  }
  return new SavestateSaver(storage);
}

async function readPage(saver: SavestateSaver): Promise<CheckpointTuple[]> {
  const tuples: CheckpointTuple[] = [];
  for await (const tuple of saver.list(thread)) tuples.push(tuple);
  return tuples;
}

const messagesOf = ({ checkpoint }: CheckpointTuple) => checkpoint.channel_values.messages as HumanMessage[];

test.each(['newest', 'oldest'])(
  '[langgraph.9] tuples of a page share nothing, whichever is looked at first: the %s',
  async (first) => {
    const saver = await openHistory(30);
    const page = await readPage(saver);
    for (const tuple of first === 'newest' ? page : page.toReversed()) {
      const expected = await saver.getTuple(tuple.config);
      expect(messagesOf(tuple)).toEqual(expected && messagesOf(expected));
      for (const message of messagesOf(tuple)) {
        Object.assign(message, { content: 'changed' });
        (message.additional_kwargs.at as number[]).push(-1);
      }
    }
    expect(new Set(page.flatMap(messagesOf)).size).toBe((30 * 31) / 2);
  },
);
