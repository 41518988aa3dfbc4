import { findIn, type StateCodec } from '../../core/codec/state-codec.ts';
import { isObject } from '../../core/options.ts';
import { hasMethod, isHandle, type StatefulAgent } from './agent.ts';
import { hasOwnCode } from './put-fields.ts';

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

/** The objects with code that an agent has, itself included. */
function objectsWithCode(agent: object): ReadonlySet<object> {
  const seen = new Set<object>();
  const found = new Set([agent]);
  const visit = (value: unknown): void => {
    if (!isObject(value) || seen.has(value) || isHandle(value)) return;
    seen.add(value);
    if (hasOwnCode(value)) found.add(value);
    if (value instanceof Map || value instanceof Set) for (const item of value.values()) visit(item);
    for (const { value: field } of Object.values(Object.getOwnPropertyDescriptors(value))) visit(field);
  };
  visit(agent);
  return found;
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
