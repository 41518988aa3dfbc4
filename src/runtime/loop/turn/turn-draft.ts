import { AsyncLocalStorage } from 'node:async_hooks';
import { isDraft } from 'mutative';
import { findIn, type StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';

/** What code is inside of. */
export type Place = 'step' | 'operation';

/** Knows, across every `await`, whether code runs inside a step or a guarded operation: there the state cannot be changed. */
const inside = new AsyncLocalStorage<Place>();

/** Runs code as the inside of a step or a guarded operation. */
export function runInside<Result>(place: Place, run: () => Result): Result {
  return inside.run(inside.getStore() === 'operation' ? 'operation' : place, run);
}

/** Whether the caller is part of a guarded operation. */
export function isInsideOperation(): boolean {
  return inside.getStore() === 'operation';
}

/** A copy that shares nothing with the value. What cannot be saved cannot be copied; it is refused when the turn ends. */
export function copyOf<Value>(codec: StateCodec, value: Value): Value {
  try {
    const { root, chunks } = codec.encode(value);
    return codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])))) as Value;
  } catch (error) {
    if (error instanceof InvalidInputError) return value;
    throw error;
  }
}

/** The same draft; it and its parts refuse to be changed inside a step, and hand out no value that freezing does not protect. */
export function guarded<Root extends object>(draft: Root, copy: (value: object) => object): Root {
  const views = new WeakMap<object, object>();
  const parts = new WeakMap<object, object>();
  const own = new WeakSet<object>();
  const view = (part: object): object => {
    const known = views.get(part) ?? new Proxy(part, handler);
    views.set(part, known);
    parts.set(known, part);
    return known;
  };
  const handOut = (target: object, key: PropertyKey, value: object): object => {
    const isInside = inside.getStore() !== undefined;
    if (isPlain(value)) return isInside || isDraft(value) ? view(value) : value;
    if (isInside || isDraft(value) || own.has(value)) return isInside ? copy(value) : value;
    const mine = copy(value);
    own.add(mine);
    Reflect.set(target, key, mine);
    return mine;
  };
  const change = (key: PropertyKey, make: () => boolean): boolean => {
    if (inside.getStore() === undefined) return make();
    throw new InvalidInputError(
      `The state of a turn cannot be changed inside a step or a guarded operation (it was "${String(key)}"). Return what it found out, and change the state after it.`,
    );
  };
  const handler: ProxyHandler<object> = {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      return typeof key === 'symbol' || typeof value !== 'object' || value === null
        ? value
        : handOut(target, key, value);
    },
    set: (target, key, value) => change(key, () => Reflect.set(target, key, parts.get(value as object) ?? value)),
    deleteProperty: (target, key) => change(key, () => Reflect.deleteProperty(target, key)),
    defineProperty: (target, key, field) => change(key, () => Reflect.defineProperty(target, key, field)),
  };
  return view(draft) as Root;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}
