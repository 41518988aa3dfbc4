import { isDeepStrictEqual } from 'node:util';
import { setField } from '../defined.ts';
import { InvalidInputError } from '../errors.ts';
import { describeValue, isObject } from '../options.ts';
import { parsePointer } from '../path.ts';
import { eachPart } from '../value/parts.ts';
import type { JsonPatchOperation } from './change.ts';

/**
 * Applies a JSON Patch (RFC 6902) and returns the new state. The state passed in is left as it was; what the patch does not
 * touch is shared with it, and values of the patch become part of the result. Throws an InvalidInputError that names the
 * first operation that does not fit.
 */
export function applyPatch(state: unknown, patch: readonly JsonPatchOperation[]): unknown {
  const patcher = new Patcher(state);
  patch.forEach((operation, index) => {
    try {
      patcher.apply(operation);
    } catch (error) {
      throw error instanceof PatchProblem ? describe(operation, index, error) : error;
    }
  });
  return patcher.state;
}

function describe(operation: unknown, index: number, cause: PatchProblem): InvalidInputError {
  const { op, path } = Object(operation) as Partial<JsonPatchOperation>;
  const named = typeof op === 'string' ? op : describeValue(op);
  const name = `operation ${index} (${named} ${JSON.stringify(path)})`;
  return new InvalidInputError(`Cannot apply ${name}: ${cause.message}`, { details: { index, op, path }, cause });
}

/** Copies may add this much, or as much as the state holds: sixty that double a value would be more than any memory. */
const MIN_COPIED = 100_000;
/** So many characters or bytes weigh as much as one value. */
const WEIGHED_BYTES = 64;

/** The state while it is patched. Containers are copied before they are first written to, and from then on written in place. */
class Patcher {
  state: unknown;
  readonly #owned = new WeakSet<object>();
  readonly #before: unknown;
  #copied = 0;
  #mayCopy: number | undefined;

  constructor(state: unknown) {
    this.#before = state;
    this.state = state;
  }

  apply(operation: JsonPatchOperation): void {
    if (typeof operation !== 'object' || operation === null) throw new PatchProblem('it is no operation.');
    const steps = readPointer(operation.path, 'path');
    switch (operation.op) {
      case 'add':
        this.#put(steps, readValue(operation), 'add');
        break;
      case 'replace':
        this.#get(steps);
        this.#put(steps, readValue(operation), 'set');
        break;
      case 'remove':
        this.#remove(steps);
        break;
      case 'move':
        this.#move(readPointer(operation.from, 'from'), steps);
        break;
      case 'copy':
        this.#copy(readPointer(operation.from, 'from'), steps);
        break;
      case 'test':
        if (isDeepStrictEqual(this.#get(steps), readValue(operation))) break;
        throw new PatchProblem('the value there is another.');
      default:
        throw new PatchProblem('there is no such operation.');
    }
  }

  #get(steps: readonly string[]): unknown {
    return steps.reduce<unknown>(readStep, this.state);
  }

  #put(steps: readonly string[], value: unknown, how: 'add' | 'set'): void {
    const last = steps.at(-1);
    const container = last === undefined ? undefined : this.#own(steps);
    if (last === undefined) this.state = value;
    else {
      const { set, add = set } = accessTo(container);
      (how === 'add' ? add : set)(container, last, value);
    }
  }

  #remove(steps: readonly string[]): void {
    const last = steps.at(-1);
    if (last === undefined) throw new PatchProblem('the whole state cannot be removed.');
    this.#get(steps);
    const container = this.#own(steps);
    accessTo(container).remove(container, last);
  }

  #move(from: readonly string[], to: readonly string[]): void {
    const value = this.#get(from);
    const isInside = from.every((step, at) => to[at] === step);
    if (isInside && to.length === from.length) return;
    if (isInside) throw new PatchProblem('a value cannot be moved into itself.');
    this.#remove(from);
    this.#put(to, value, 'add');
  }

  #copy(from: readonly string[], to: readonly string[]): void {
    const value = this.#get(from);
    for (const part of eachPart(value)) {
      if (isObject(part)) this.#owned.delete(part); // it is now at two places: writing to one must not show at the other
      this.#copied += weigh(part);
      if (this.#copied > MIN_COPIED) this.#checkCopied();
    }
    this.#put(to, value, 'add');
  }

  #checkCopied(): void {
    this.#mayCopy ??= weighAll(this.#before);
    if (this.#copied <= this.#mayCopy) return;
    throw new PatchProblem(
      `the patch copies more than ${MIN_COPIED} values, and more than the state has. Copy less, or give the value with add.`,
    );
  }

  /** The container of the last step, free to be written to. */
  #own(steps: readonly string[]): unknown {
    this.state = this.#ownValue(this.state);
    let container = this.state;
    for (const step of steps.slice(0, -1)) {
      const value = readStep(container, step);
      const owned = this.#ownValue(value);
      if (owned !== value) accessTo(container).set(container, step, owned);
      container = owned;
    }
    return container;
  }

  #ownValue(value: unknown): unknown {
    const access = accessTo(value);
    if (this.#owned.has(value as object)) return value;
    const copy = access.copy(value);
    this.#owned.add(copy as object);
    return copy;
  }
}

function weighAll(value: unknown): number {
  let weight = 0;
  for (const part of eachPart(value, new Set())) weight += weigh(part);
  return weight;
}

function weigh(part: unknown): number {
  const bytes = typeof part === 'string' ? part.length : ArrayBuffer.isView(part) ? part.byteLength : 0;
  return 1 + bytes / WEIGHED_BYTES;
}

function readPointer(pointer: unknown, name: string): string[] {
  const isPointer = typeof pointer === 'string' && (pointer === '' || pointer.startsWith('/'));
  if (!isPointer || /~(?![01])/.test(pointer)) throw new PatchProblem(`its ${name} is no JSON Pointer.`);
  return parsePointer(pointer);
}

function readValue(operation: JsonPatchOperation): unknown {
  if (!Object.hasOwn(operation, 'value')) throw new PatchProblem('it has no value.');
  return (operation as { value: unknown }).value;
}

/** Says what is wrong with one operation of a patch; the caller adds which operation it is. */
class PatchProblem extends Error {}

/** How a patch reads and writes one kind of container. `step` is an unescaped step of a JSON Pointer. */
type Access<C> = {
  copy(container: C): C;
  has(container: C, step: string): boolean;
  get(container: C, step: string): unknown;
  /** Puts a value in a place that exists. */
  set(container: C, step: string, value: unknown): void;
  /** Inserts into an array; without it `set` sets the key of an object or map, new or not. */
  add?(container: C, step: string, value: unknown): void;
  remove(container: C, step: string): void;
};

type Fields = { [key: string]: unknown };

const INDEX = /^(?:0|[1-9]\d*)$/;

const LIST: Access<unknown[]> = {
  copy: (list) => list.slice(),
  has: (list, step) => step !== '-' && readIndex(step) < list.length,
  get: (list, step) => list[readIndex(step)],
  set: (list, step, value) => {
    list[readIndex(step)] = value;
  },
  add: (list, step, value) => {
    const index = step === '-' ? list.length : readIndex(step);
    if (index > list.length) throw new PatchProblem(`index ${step} is beyond the end of an array of ${list.length}.`);
    list.splice(index, 0, value);
  },
  remove: (list, step) => {
    list.splice(readIndex(step), 1);
  },
};

/** Own properties only: `__proto__` and `constructor` are keys like any other. */
const FIELDS: Access<Fields> = {
  copy: (fields) =>
    Object.getPrototypeOf(fields) === null ? Object.assign(Object.create(null), fields) : { ...fields },
  has: (fields, step) => Object.hasOwn(fields, step),
  get: (fields, step) => fields[step],
  set: setField,
  remove: (fields, step) => {
    delete fields[step];
  },
};

const ENTRIES: Access<Map<unknown, unknown>> = {
  copy: (map) => new Map(map),
  has: (map, step) => map.has(step),
  get: (map, step) => map.get(step),
  set: (map, step, value) => void map.set(step, value),
  remove: (map, step) => void map.delete(step),
};

function readIndex(step: string): number {
  if (!INDEX.test(step)) throw new PatchProblem(`"${step}" is no index of an array.`);
  return Number(step);
}

/** How to read and write a value; throws a PatchProblem if it is no array, object or map. */
function accessTo(value: unknown): Access<unknown> {
  if (typeof value === 'object' && value !== null) {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (Array.isArray(value)) return LIST as Access<unknown>;
    if (prototype === Object.prototype || prototype === null) return FIELDS as Access<unknown>;
    if (prototype === Map.prototype) return ENTRIES as Access<unknown>;
  }
  throw new PatchProblem('it leads into a value that is no array, object or map.');
}

/** The value at a step; throws a PatchProblem if there is none. */
function readStep(container: unknown, step: string): unknown {
  const access = accessTo(container);
  if (!access.has(container, step)) throw new PatchProblem(`there is no ${JSON.stringify(step)}.`);
  return access.get(container, step);
}
