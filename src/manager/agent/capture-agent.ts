import { findIn, type StateCodec } from '../../core/codec/state-codec.ts';
import { hasMethod, type StatefulAgent } from './agent.ts';
import { objectsWithCode } from './put-fields.ts';

/** Notes what a live agent is now; returns how to make it that again. Throws if its state cannot be copied. */
export function captureAgent(agent: object, codec: StateCodec): () => Promise<unknown> {
  if (!hasMethod(agent, 'saveState') || !hasMethod(agent, 'loadState')) return captureFields(agent);
  const stateful = agent as StatefulAgent;
  const { root, chunks } = codec.encode(stateful.saveState());
  const find = findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])));
  const before = new Set(Object.keys(agent));
  return async () => {
    for (const key of Object.keys(agent)) if (!before.has(key)) Reflect.deleteProperty(agent, key);
    return stateful.loadState(codec.decode(root, find));
  };
}

/** Data is replaced by a restore and not changed; what has code is written to, so that its fields are noted. */
function captureFields(agent: object): () => Promise<void> {
  const undos = [...objectsWithCode(agent)].map(captureObject);
  return async () => {
    for (const undo of undos) undo();
  };
}

function captureObject(target: object): () => void {
  const before = Object.getOwnPropertyDescriptors(target);
  const set = settable(target).map((key) => [key, Reflect.get(target, key)] as const);
  return () => {
    for (const key of Object.keys(target)) if (!Object.hasOwn(before, key)) Reflect.deleteProperty(target, key);
    Object.defineProperties(target, before);
    for (const [key, value] of set) Reflect.set(target, key, value);
  };
}

/** The names of what an object lets be read and set by code of its own. */
function settable(target: object): string[] {
  const names: string[] = [];
  for (let at: object | null = target; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const [key, found] of Object.entries(Object.getOwnPropertyDescriptors(at)))
      if (found.get !== undefined && found.set !== undefined) names.push(key);
  return names;
}
