import { findIn, type StateCodec } from '../../core/codec/state-codec.ts';
import { hasMethod, type StatefulAgent } from './agent.ts';

/** Notes what a live agent is now; returns how to make it that again. Throws if its state cannot be copied. */
export function captureAgent(agent: object, codec: StateCodec): () => Promise<unknown> {
  if (!hasMethod(agent, 'saveState') || !hasMethod(agent, 'loadState')) return captureFields(agent);
  const stateful = agent as StatefulAgent;
  const { root, chunks } = codec.encode(stateful.saveState());
  const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
  return async () => stateful.loadState(codec.decode(root, find));
}

/** Fields are replaced by a restore and not changed, so that putting the values back is enough. */
function captureFields(agent: object): () => Promise<void> {
  const before = Object.getOwnPropertyDescriptors(agent);
  return async () => {
    for (const key of Object.keys(agent)) if (!Object.hasOwn(before, key)) Reflect.deleteProperty(agent, key);
    Object.defineProperties(agent, before);
  };
}
