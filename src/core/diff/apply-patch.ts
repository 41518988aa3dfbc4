import { isDeepStrictEqual } from 'node:util';
import { InvalidInputError } from '../errors.ts';
import { parsePointer } from '../path.ts';
import type { JsonPatchOperation } from './json-patch.ts';
import { accessTo, PatchProblem, readStep } from './patch-container.ts';

/**
 * Applies a JSON Patch (RFC 6902) and answers the new state. The state passed in is left as it was; what the patch does not
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
  const name = `operation ${index} (${String(op)} ${JSON.stringify(path)})`;
  return new InvalidInputError(`Cannot apply ${name}: ${cause.message}`, { details: { index, op, path }, cause });
}

/** The state while it is patched. Containers are copied before they are first written to, and from then on written in place. */
class Patcher {
  #state: unknown;
  #owned = new WeakSet<object>();

  constructor(state: unknown) {
    this.#state = state;
  }

  get state(): unknown {
    return this.#state;
  }

  apply(operation: JsonPatchOperation): void {
    if (typeof operation !== 'object' || operation === null) throw new PatchProblem('it is no operation.');
    const steps = readPointer(operation.path, 'path');
    switch (operation.op) {
      case 'add':
        this.#add(steps, readValue(operation));
        break;
      case 'replace':
        this.#replace(steps, readValue(operation));
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
        this.#test(steps, readValue(operation));
        break;
      default:
        throw new PatchProblem('there is no such operation.');
    }
  }

  #get(steps: readonly string[]): unknown {
    return steps.reduce<unknown>(readStep, this.#state);
  }

  #add(steps: readonly string[], value: unknown): void {
    this.#put(steps, value, 'add');
  }

  #replace(steps: readonly string[], value: unknown): void {
    this.#get(steps);
    this.#put(steps, value, 'set');
  }

  #put(steps: readonly string[], value: unknown, how: 'add' | 'set'): void {
    const last = steps.at(-1);
    const container = last === undefined ? undefined : this.#own(steps);
    if (last === undefined) this.#state = value;
    else accessTo(container)[how](container, last, value);
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
    this.#add(to, value);
  }

  #copy(from: readonly string[], to: readonly string[]): void {
    const value = this.#get(from);
    this.#owned = new WeakSet(); // the value is now at two places: writing to one must not show at the other
    this.#add(to, value);
  }

  #test(steps: readonly string[], value: unknown): void {
    if (!isDeepStrictEqual(this.#get(steps), value)) throw new PatchProblem('the value there is another.');
  }

  /** The container of the last step, free to be written to. */
  #own(steps: readonly string[]): unknown {
    this.#state = this.#ownValue(this.#state);
    let container = this.#state;
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

function readPointer(pointer: unknown, name: string): string[] {
  const isPointer = typeof pointer === 'string' && (pointer === '' || pointer.startsWith('/'));
  if (!isPointer || /~(?![01])/.test(pointer)) throw new PatchProblem(`its ${name} is no JSON Pointer.`);
  return parsePointer(pointer);
}

function readValue(operation: JsonPatchOperation): unknown {
  if (!Object.hasOwn(operation, 'value')) throw new PatchProblem('it has no value.');
  return (operation as { value: unknown }).value;
}
