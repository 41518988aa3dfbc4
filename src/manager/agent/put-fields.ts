import { messageOf } from '../../core/errors.ts';
import { describeValue, isObject, isPlainObject, isRecord } from '../../core/options.ts';
import type { PathStep } from '../../core/path.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { findLeftOutSecrets, isSecretSet, type RestoreProblem } from '../engine/loading.ts';
import { isHandle } from './agent.ts';
import { compareField, differenceAt, type Fields, notPutBack } from './field-kinds.ts';

/** How fields are put into an agent: what it has now, and when two values are the same. */
export type Putting = {
  readonly own: unknown;
  readonly isSame: (one: unknown, other: unknown) => boolean;
  /** The agent was made for this restore, or never saved: what is in its fields is what its code gives it. */
  readonly isNew: boolean;
  /** Fields that stay the agent's own. */
  readonly keep?: readonly string[];
  /** The state is what the agent's saveState returned, so that a field may be of another kind than its saved value. */
  readonly isDescribed?: boolean;
  /** Fields that held instances of classes when they were saved. */
  readonly instances?: readonly string[];
  /** What the code lacks, or has otherwise, is left as the code says. */
  readonly isCodeKept?: boolean;
};

type Path = readonly PathStep[];
type Field = readonly [key: string, value: unknown];

type Both = { readonly own: Fields; readonly saved: Fields };

const NOT_MADE = 'instances of a class were here, and none can be made of plain data';

/**
 * Puts fields into an agent; returns what could not be put back, and what the agent has from elsewhere. Data is put back by value.
 * An object of the agent that has code (a class, methods, getters) stays, and gets the saved fields.
 */
export function putFields(agent: object, given: Fields, putting: Putting): RestoreProblem[] {
  const { keep = [], isCodeKept = false } = putting;
  const saved = without(given, keep);
  const own = isRecord(putting.own) ? without(putting.own, keep) : {};
  const lost = isPlainObject(agent) ? [] : Object.keys(saved).filter((key) => isLost(agent, [key, saved[key]]));
  const putter = new Putter(putting);
  putter.fill(agent, { own, saved: isCodeKept ? without(saved, lost) : saved }, []);
  const named = lost.filter((field) => isCodeKept || Object.hasOwn(agent, field));
  return [...putter.problems, ...named.map((field) => differenceAt([], { field, kind: 'missing' }))];
}

function without(fields: Fields, left: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !left.includes(key)));
}

/** Whether the class of an agent has no place for a saved field. */
function isLost(agent: object, [key, value]: Field): boolean {
  return value !== undefined && findProperty(agent, key) === undefined;
}

class Putter {
  readonly problems: RestoreProblem[] = [];
  readonly #putting: Putting;
  /** What took the place of each saved object: it may be in a state twice. */
  readonly #placed = new Map<unknown, object>();
  readonly #filled = new Set<object>();

  constructor(putting: Putting) {
    this.#putting = putting;
  }

  /** Sets the fields of an object that has code, and reads them back: its code may make another value of what was saved. */
  fill(target: object, both: Both, path: Path): void {
    this.#filled.add(target);
    const left = new Set(this.#keepOwn(both, path, isData));
    const put = Object.entries(both.saved).filter(([key, value]) => !left.has(key) && !(value instanceof SecretRef));
    const expected = put.map((field) => this.#set(target, field, [...path, field[0]]));
    for (const [at, [key, value]] of put.entries()) {
      const now: unknown = Reflect.get(target, key);
      if (now !== expected[at] && !this.#putting.isSame(now, value)) this.#report([...path, key]);
    }
  }

  /** The fields that stay as the code has them; names what the checkpoint lacks, or has of another kind than an agent that is new. */
  #keepOwn({ own, saved }: Both, path: Path, isKept: (value: unknown) => boolean): string[] {
    const { isNew, isCodeKept = false } = this.#putting;
    return Object.keys(own).filter((key) => {
      const isAdded = !Object.hasOwn(saved, key);
      if (isAdded ? !isKept(own[key]) : !isNew) return false;
      const difference = compareField(key, saved, own);
      if (difference !== undefined) this.problems.push(differenceAt(path, difference));
      return isAdded || (isCodeKept && difference !== undefined);
    });
  }

  /** Sets a field as far as the code lets it; returns what is to be read there. */
  #set(target: object, [key, value]: Field, path: Path): unknown {
    const found = findProperty(target, key);
    if (found === undefined || mayReplace(found, value)) return this.#replace(target, [key, value], path);
    const { get, set } = found.property;
    if (set === undefined) return value;
    try {
      Reflect.set(target, key, value);
    } catch (error) {
      this.#report(path, messageOf(error));
    }
    return get === undefined ? undefined : value;
  }

  #replace(target: object, [key, value]: Field, path: Path): unknown {
    const live: unknown = Reflect.getOwnPropertyDescriptor(target, key)?.value; // what it inherits is not its own to put into
    if (value === undefined && isHandle(live)) return live;
    const placed = this.#place(live, value, path);
    define(target, key, placed);
    return placed;
  }

  /** What is to stand at a place: the saved value, or the agent's own object with the saved fields. */
  #place(live: unknown, saved: unknown, path: Path): unknown {
    if (saved instanceof SecretRef) return isSecretSet(live) ? live : saved;
    if (isObject(live)) return isNews(live, saved) ? this.#placeOver(live, saved, path) : saved;
    if (isPlainObject(saved) && this.#heldInstances(path)) this.#report(path, NOT_MADE);
    return saved;
  }

  #placeOver(live: object, saved: unknown, path: Path): unknown {
    if (this.#placed.has(saved)) return this.#placed.get(saved);
    if (hasOwnCode(live) && isPlainObject(saved)) return this.#fillOnce(live, saved, path);
    if (this.#isMismatch(live, saved)) {
      this.#report(path, `the agent has ${describeValue(live)} here, and the checkpoint ${describeValue(saved)}`);
      return live;
    }
    if (isObject(saved)) this.#placeInside(live, saved, path);
    return saved;
  }

  #fillOnce(live: object, saved: Fields, path: Path): object {
    if (this.#filled.has(live)) {
      this.#report(path, 'the agent has one object here and in another place, where the checkpoint has two');
      return live;
    }
    this.#placed.set(saved, live);
    this.fill(live, { own: dataOf(live), saved }, path);
    return live;
  }

  /** Whether a saved value would take away an object of another kind that the code gave the agent. */
  #isMismatch(live: object, saved: unknown): boolean {
    if (isInstance(saved) || sharePrototype(live, saved)) return false;
    return hasOwnCode(live) || (this.#putting.isDescribed === true && !isPlainObject(live));
  }

  /** Whether instances of classes were in a field of the agent, which may have nothing there now. */
  #heldInstances([key, ...inner]: Path): boolean {
    return inner.length === 0 && typeof key === 'string' && this.#putting.instances?.includes(key) === true;
  }

  /** Looks for objects with code inside of data, so that they stay. */
  #placeInside(live: object, saved: object, path: Path): void {
    this.#placed.set(saved, saved);
    if (isPlainObject(live) && isPlainObject(saved)) this.#placeFields(live, saved, path);
    else if (sharePrototype(live, saved)) this.#placeItems(live, saved, path);
  }

  /** In an agent that was saved before, plain objects become what they were; only code that is in them stays. */
  #placeFields(own: Fields, saved: Fields, path: Path): void {
    const isKept = (value: unknown) => value !== undefined && (this.#putting.isNew || hasOwnCode(value));
    const kept = new Set(this.#keepOwn({ own, saved }, path, isKept));
    for (const [key, value] of Object.entries(own))
      if (kept.has(key)) define(saved, key, value);
      else if (Object.hasOwn(saved, key)) define(saved, key, this.#place(value, saved[key], [...path, key]));
  }

  #placeItems(live: object, saved: object, path: Path): void {
    const own = itemsOf(live);
    const hadInstances = [...own.values()].some(hasOwnCode) || this.#heldInstances(path);
    for (const [key, item] of itemsOf(saved)) {
      const place = [...path, stepTo(saved, key)];
      if (hadInstances && isPlainObject(item) && !own.has(key)) this.#report(place, NOT_MADE);
      const put = this.#place(this.#isMovable(saved, own.get(key), item) ? undefined : own.get(key), item, place);
      if (put !== item) putItem(saved, key, put);
    }
  }

  /** Items of a list are known by their place alone: a secret stays only in one that is otherwise as it was. */
  #isMovable(saved: object, live: unknown, item: unknown): boolean {
    if (!Array.isArray(saved) || live === undefined || hasOwnCode(live)) return false;
    return findLeftOutSecrets(item).length > 0 && !this.#putting.isSame(live, item);
  }

  #report(path: Path, why?: string): void {
    const problem = notPutBack(path, why);
    if (!this.problems.some(({ path: known }) => known === problem.path)) this.problems.push(problem);
  }
}

/** Whether a saved value is there, and another one than the agent has. */
function isNews(live: unknown, saved: unknown): boolean {
  return saved !== undefined && saved !== null && saved !== live;
}

function isData(value: unknown): boolean {
  return value !== undefined && typeof value !== 'function';
}

/** Whether an object is more than data: of a class of the caller's, or with a method, getter or setter of its own. */
export function hasOwnCode(value: unknown): value is object {
  if (!isObject(value)) return false;
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype !== null && !isBuiltIn(prototype)) return true;
  return isPlainObject(value) && Object.values(Object.getOwnPropertyDescriptors(value)).some(isCode);
}

/** The fields of an object that no code computes. */
export function dataOf(value: object): Fields {
  const fields = Object.entries(Object.getOwnPropertyDescriptors(value));
  return Object.fromEntries(
    fields.filter(([, { enumerable }]) => enumerable).map(([key, field]) => [key, field.value]),
  );
}

function isCode(field: PropertyDescriptor): boolean {
  return field.get !== undefined || field.set !== undefined || typeof field.value === 'function';
}

function isBuiltIn({ constructor: maker }: object): boolean {
  return typeof maker === 'function' && Reflect.get(globalThis, maker.name) === maker;
}

/** Whether a value is of a class, as it was when it was saved. */
function isInstance(value: unknown): boolean {
  return isObject(value) && !DATA.has(Object.getPrototypeOf(value));
}

const DATA: ReadonlySet<unknown> = new Set([null, Object.prototype, Array.prototype, Map.prototype, Set.prototype]);

function sharePrototype(one: object, other: unknown): boolean {
  return isObject(other) && Object.getPrototypeOf(one) === Object.getPrototypeOf(other);
}

/** The items of a list by their places, those of a map by their keys; elements of a set are known by themselves. */
function itemsOf(value: object): ReadonlyMap<unknown, unknown> {
  if (Array.isArray(value) || value instanceof Map || value instanceof Set)
    return new Map<unknown, unknown>(value.entries());
  return new Map();
}

function stepTo(value: object, key: unknown): PathStep {
  if (typeof key === 'number' && Array.isArray(value)) return key;
  return value instanceof Set ? '<element>' : `<key ${String(key)}>`;
}

function putItem(value: object, key: unknown, item: unknown): void {
  if (value instanceof Map) value.set(key, item);
  else Reflect.set(value, key as number, item);
}

/** Sets a field as data; what cannot be defined anew, as in a sealed object, may still be set. */
function define(target: object, key: string, value: unknown): void {
  const isFixed = Reflect.getOwnPropertyDescriptor(target, key)?.configurable === false;
  const rest = isFixed ? {} : { writable: true, enumerable: true, configurable: true };
  Reflect.defineProperty(target, key, { value, ...rest });
}

type Property = { readonly property: PropertyDescriptor; readonly isOwn: boolean };

/** The property that a key leads to, of the object or its classes. `__proto__` is a key like others: it never leads to the prototype. */
function findProperty(target: object, key: string): Property | undefined {
  for (let at: object | null = target; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    const property = Reflect.getOwnPropertyDescriptor(at, key);
    if (property !== undefined) return { property, isOwn: at === target };
    if (key === '__proto__') return undefined; // what is not this realm's Object.prototype may have the accessor, too
  }
  return undefined;
}

/** Whether there is data in the place of a value, and no code; a function of the object's own gives way to nothing. */
function mayReplace({ property, isOwn }: Property, value: unknown): boolean {
  if (!('value' in property)) return false;
  return typeof property.value !== 'function' || (isOwn && (value ?? undefined) === undefined);
}
