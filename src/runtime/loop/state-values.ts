import { InvalidInputError } from '../../core/errors.ts';
import { findIn, type StateCodec } from '../../core/state-codec.ts';
import { STRAY_CHECK_ITEMS } from '../../core/unchanged.ts';

/** Frozen all the way down, and without dates, bytes and the like, which freezing does not protect: safe to be shared. */
const shareable = new WeakSet<object>();

/** Lists that were made here have no holes. */
const ownLists = new WeakSet<object>();

/** Keys that mean something else than a field. */
const ODD_KEYS = ['__proto__', 'constructor'];

type Container = { [key: string]: unknown };

/** Copies and compares the values in a state: lists and records part by part, everything else as the codec has it. */
export class StateValues {
  readonly #codec: StateCodec;

  constructor(codec: StateCodec) {
    this.#codec = codec;
  }

  /**
   * A copy that nobody else can change; parts that cannot be changed at all are shared. What is as it was in an earlier copy is taken
   * from there: a copy of a value in which nothing changed is the earlier one.
   */
  copy<Value>(value: Value, earlier?: Value): Value {
    return this.#copy(value, earlier) as Value;
  }

  #copy(value: unknown, earlier: unknown): unknown {
    if (typeof value !== 'object' || value === null || value === earlier || isShareable(value)) return value;
    if (isList(value)) return this.#copyList(value, Array.isArray(earlier) ? earlier : []);
    if (isRecord(value)) return this.#copyRecord(value, isContainer(earlier) ? earlier : {});
    return this.isSame(value, earlier) ? earlier : this.#copyOther(value);
  }

  #copyList(list: readonly unknown[], earlier: readonly unknown[]): readonly unknown[] {
    let at = 0;
    while (at < list.length && at < earlier.length && this.#isCopyOf(list[at], earlier[at])) at++;
    if (at === list.length && at === earlier.length) return earlier;
    const copy = earlier.slice(0, at);
    for (; at < list.length; at++) copy.push(this.#copy(list[at], earlier[at]));
    ownLists.add(copy);
    return copy;
  }

  #isCopyOf(value: unknown, earlier: unknown): boolean {
    return Object.is(value, earlier) || Object.is(this.#copy(value, earlier), earlier);
  }

  #copyRecord(record: Container, earlier: Container): Container {
    const keys = Object.keys(record);
    let isChanged = keys.length !== Object.keys(earlier).length;
    const copy: Container = {};
    for (const key of keys) {
      const part = this.#copy(record[key], earlier[key]);
      isChanged ||= !Object.is(part, earlier[key]) || !Object.hasOwn(earlier, key);
      copy[key] = part;
    }
    return isChanged ? copy : earlier;
  }

  /** A copy of which every part can be changed. */
  copyWhole<Value>(value: Value): Value {
    return this.#copyWhole(value) as Value;
  }

  #copyWhole(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    if (isList(value)) return value.map((item) => this.#copyWhole(item));
    if (!isRecord(value)) return this.#copyOther(value);
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, this.#copyWhole(part)]));
  }

  /** What cannot be saved cannot be copied either; it is refused when the turn ends. */
  #copyOther(value: object): unknown {
    if (value instanceof Date) return new Date(value);
    try {
      const { root, chunks } = this.#codec.encode(value);
      return this.#codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk]))));
    } catch (error) {
      if (error instanceof InvalidInputError) return value;
      throw error;
    }
  }

  /** Whether two values that are not both lists or both records are the same. */
  isSame(a: unknown, b: unknown): boolean {
    if (Object.is(a, b)) return true;
    if (a instanceof Date && b instanceof Date) return Object.is(a.getTime(), b.getTime());
    const digest = this.#digestOf(a);
    return digest !== undefined && digest === this.#digestOf(b);
  }

  #digestOf(value: unknown): string | undefined {
    if (typeof value !== 'object' || value === null) return undefined;
    try {
      return this.#codec.encode(value).root.digest;
    } catch (error) {
      if (error instanceof InvalidInputError) return undefined;
      throw error;
    }
  }
}

/** Whether a value is a list without holes and, unless it is long, without extras: that check reads every key. */
export function isList(value: unknown): value is unknown[] {
  if (!Array.isArray(value) || Object.getPrototypeOf(value) !== Array.prototype) return false;
  if (value.length > STRAY_CHECK_ITEMS) return ownLists.has(value) || !hasHole(value);
  return Object.keys(value).length === value.length && Object.getOwnPropertySymbols(value).length === 0;
}

function hasHole(list: readonly unknown[]): boolean {
  for (let at = 0; at < list.length; at++) if (list[at] === undefined && !Object.hasOwn(list, at)) return true;
  return false;
}

/** Whether a value is a plain object of which every key is an ordinary one. */
export function isRecord(value: unknown): value is Container {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.getPrototypeOf(value) === Object.prototype &&
    Object.getOwnPropertySymbols(value).length === 0 &&
    !ODD_KEYS.some((key) => Object.hasOwn(value, key))
  );
}

function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function isShareable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (shareable.has(value)) return true;
  if (!Object.isFrozen(value) || !(isList(value) || isRecord(value))) return false;
  const isSafe = Object.values(value).every(isShareable);
  if (isSafe) shareable.add(value);
  return isSafe;
}
