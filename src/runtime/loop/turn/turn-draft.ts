import { AsyncLocalStorage } from 'node:async_hooks';
import { isDraft } from 'mutative';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { ClosedError, InvalidInputError } from '../../../core/errors.ts';
import { isPlainObject } from '../../../core/options.ts';

/** What code is inside of. */
export type Inside = 'step' | 'operation';

/** Knows, across every `await`, whether code runs inside a step or a guarded operation: there the state cannot be changed. */
const inside = new AsyncLocalStorage<Inside>();

/** Runs code as the inside of a step or a guarded operation. */
export function runInside<Result>(place: Inside, run: () => Result): Result {
  return inside.run(inside.getStore() === 'operation' ? 'operation' : place, run);
}

/** Whether the caller is part of a guarded operation. */
export function isInsideOperation(): boolean {
  return inside.getStore() === 'operation';
}

/** A copy that shares nothing with the value. What cannot be saved cannot be copied; it is refused when the turn ends. */
export function copyOf<Value>(codec: StateCodec, value: Value): Value {
  try {
    return codec.copy(value);
  } catch (error) {
    if (error instanceof InvalidInputError) return value;
    throw error;
  }
}

type Guard = { readonly copy: (value: object) => object; readonly isOver: () => boolean };

/**
 * The same draft; it and its parts refuse to be changed inside a step, and to be touched after the turn; they hand out no value
 * that freezing does not protect. Of the draft itself only the fields it has can be set.
 */
export function guarded<Root extends object>(draft: Root, guard: Guard): Root {
  return new GuardedDraft(draft, guard).view(draft) as Root;
}

class GuardedDraft implements ProxyHandler<object> {
  readonly #draft: object;
  readonly #guard: Guard;
  readonly #fields: readonly string[];
  readonly #views = new WeakMap<object, object>();
  readonly #parts = new WeakMap<object, object>();
  readonly #own = new WeakSet<object>();

  constructor(draft: object, guard: Guard) {
    this.#draft = draft;
    this.#guard = guard;
    this.#fields = Object.keys(draft);
  }

  view(part: object): object {
    const known = this.#views.get(part) ?? new Proxy(part, this);
    this.#views.set(part, known);
    this.#parts.set(known, part);
    return known;
  }

  get(target: object, key: PropertyKey): unknown {
    this.#throwIfOver();
    const value: unknown = Reflect.get(target, key);
    const isValue = typeof key === 'symbol' || typeof value !== 'object' || value === null;
    return isValue ? value : this.#handOut(target, key, value);
  }

  has(target: object, key: PropertyKey): boolean {
    this.#throwIfOver();
    return Reflect.has(target, key);
  }

  ownKeys(target: object): (string | symbol)[] {
    this.#throwIfOver();
    return Reflect.ownKeys(target);
  }

  getOwnPropertyDescriptor(target: object, key: PropertyKey): PropertyDescriptor | undefined {
    this.#throwIfOver();
    return Reflect.getOwnPropertyDescriptor(target, key);
  }

  set(target: object, key: PropertyKey, value: unknown): boolean {
    this.#throwUnlessOpen(target, key);
    return Reflect.set(target, key, this.#parts.get(value as object) ?? value);
  }

  deleteProperty(target: object, key: PropertyKey): boolean {
    this.#throwUnlessOpen(target, key);
    return target === this.#draft ? refuseDelete(key) : Reflect.deleteProperty(target, key);
  }

  defineProperty(target: object, key: PropertyKey, field: PropertyDescriptor): boolean {
    this.#throwUnlessOpen(target, key);
    return Reflect.defineProperty(target, key, field);
  }

  #handOut(target: object, key: PropertyKey, value: object): object {
    const isInside = inside.getStore() !== undefined;
    if (isPlain(value)) return isInside || isDraft(value) ? this.view(value) : value;
    if (isInside || isDraft(value) || this.#own.has(value)) return isInside ? this.#guard.copy(value) : value;
    const mine = this.#guard.copy(value);
    this.#own.add(mine);
    Reflect.set(target, key, mine);
    return mine;
  }

  #throwIfOver(): void {
    if (!this.#guard.isOver()) return;
    throw new ClosedError(
      'The turn has ended, so its state is of no use any more. Take what you need from it before the turn ends.',
    );
  }

  #throwUnlessOpen(target: object, key: PropertyKey): void {
    this.#throwIfOver();
    if (inside.getStore() !== undefined)
      throw new InvalidInputError(
        `The state of a turn cannot be changed inside a step or a guarded operation (it was "${String(key)}"). Return what it found out, and change the state after it.`,
      );
    if (target === this.#draft && !this.#fields.includes(String(key))) refuseField(key, this.#fields);
  }
}

function refuseField(key: PropertyKey, fields: readonly string[]): never {
  throw new InvalidInputError(
    `turn.state has no "${String(key)}" (it has: ${fields.join(', ')}). Keep fields of your own in one of these, for example in turn.state.memory.session.`,
  );
}

function refuseDelete(key: PropertyKey): never {
  throw new InvalidInputError(
    `turn.state.${String(key)} cannot be deleted. Set it instead: a task to null, lists and memories to empty ones.`,
  );
}

function isPlain(value: object): boolean {
  return Array.isArray(value) || isPlainObject(value);
}
