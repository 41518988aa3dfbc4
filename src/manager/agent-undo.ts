import { findIn, type StateCodec } from '../core/state-codec.ts';
import { loadInto, type StatefulAgent } from './agent.ts';

/** Notes what a live agent is now; answers how to make it that again. Throws if its state cannot be copied. */
export function captureAgent(agent: object, codec: StateCodec): () => Promise<unknown> {
  if (!('saveState' in agent) || typeof agent.saveState !== 'function') return captureFields(agent);
  const { root, chunks } = codec.encode((agent as StatefulAgent).saveState());
  const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
  return () => loadInto(agent, codec.decode(root, find));
}

/** Fields are replaced by a restore and not changed, so that putting the values back is enough. */
function captureFields(agent: object): () => Promise<void> {
  const before = Object.getOwnPropertyDescriptors(agent);
  return async () => {
    for (const key of Object.keys(agent)) if (!Object.hasOwn(before, key)) Reflect.deleteProperty(agent, key);
    Object.defineProperties(agent, before);
  };
}
