import { messageOf } from '../../core/errors.ts';
import { describeValue, isObject, isRecord } from '../../core/options.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { findLeftOutSecrets, isSecretSet, type RestoreProblem } from '../engine/loading.ts';
import { isHandle } from './agent.ts';
import { changedField, findChanged, keptField, lostField } from './field-kinds.ts';

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

type Fields = Readonly<Record<string, unknown>>;
type Path = readonly PathStep[];

/**
 * Puts fields into an agent; returns what could not be put back, and what the agent has from elsewhere. Data is put back by value.
 * An object of the agent that has code (a class, methods, getters) stays, and gets the saved fields.
 */
export function putFields(agent: object, saved: Fields, putting: Putting): RestoreProblem[] {
  const { keep = [], isNew, isCodeKept = false } = putting;
  const own = isRecord(putting.own) ? putting.own : {};
  const putter = new Putter(putting);
  putter.noteKept(own, saved, []);
  const isLost = (key: string) => saved[key] !== undefined && findProperty(agent, key) === undefined;
  const lost = isPlain(agent) ? [] : Object.keys(saved).filter(isLost); // the class of the agent lacks it
  const changed = isNew ? findChanged(saved, own) : [];
  const left = new Set([...keep, ...(isCodeKept ? [...lost, ...changed.map(({ field }) => field)] : [])]);
  putter.fill(agent, Object.fromEntries(Object.entries(saved).filter(([key]) => !left.has(key))), []);
  const known = new Set(putter.problems.map(({ path }) => path));
  const isNamed = (key: string) => !keep.includes(key) && (isCodeKept || Object.hasOwn(agent, key));
  return [
    ...putter.problems,
    ...lost.filter(isNamed).map((key) => lostField(key, isCodeKept)),
    ...changed.map((one) => changedField(one, isCodeKept)).filter(({ path }) => !known.has(path)),
  ];
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

  /** Names what an object has and the checkpoint lacks. */
  noteKept(own: Fields, saved: Fields, path: Path): void {
    for (const [key, value] of Object.entries(own))
      if (!Object.hasOwn(saved, key) && value !== undefined && typeof value !== 'function')
        this.problems.push(keptField([...path, key]));
  }

  /** Sets the fields of an object that has code. */
  fill(target: object, saved: Fields, path: Path): void {
    this.#filled.add(target);
    for (const [key, value] of Object.entries(saved)) this.#set(target, [key, value], path);
    for (const field of Object.entries(saved)) this.#readBack(target, field, path);
  }

  /** Code of the agent may return another value for a field than was saved, or than was set. */
  #readBack(target: object, [key, value]: Field, path: Path): void {
    const found = findProperty(target, key)?.property;
    if (found?.get === undefined || value instanceof SecretRef) return;
    if (this.#putting.isSame(Reflect.get(target, key), value)) return;
    const place = formatPath([...path, key]);
    if (!this.problems.some((problem) => problem.path === place))
      this.problems.push({ path: place, problem: found.set === undefined ? COMPUTED : CHANGED });
  }

  #set(target: object, [key, value]: Field, path: Path): void {
    if (value instanceof SecretRef) return; // reported with all left-out secrets; the agent keeps what it has
    const kind = kindOf(target, [key, value]);
    if (kind === 'computed') return;
    const live: unknown = Reflect.getOwnPropertyDescriptor(target, key)?.value; // what it inherits is not its own to put into
    if (value === undefined && isHandle(live)) return;
    const place = [...path, key];
    const problem = assign(target, [key, kind === 'field' ? this.#place(live, value, place) : value], kind);
    if (problem !== undefined) this.#report(place, problem);
  }

  /** What is to stand at a place: the saved value, or the agent's own object with the saved fields. */
  #place(live: unknown, saved: unknown, path: Path): unknown {
    if (saved instanceof SecretRef) return isSecretSet(live) ? live : saved;
    if (!isObject(live)) return this.#putAlone(saved, path);
    if (!isNews(live, saved)) return saved;
    if (this.#placed.has(saved)) return this.#placed.get(saved);
    if (hasOwnCode(live) && isPlain(saved)) return this.#fillOnce(live, saved, path);
    if (this.#isMismatch(live, saved)) return this.#refuse(live, saved, path);
    if (isObject(saved)) this.#placeInside(live, saved, path);
    return saved;
  }

  /** A saved value where the agent has no object. */
  #putAlone(saved: unknown, path: Path): unknown {
    if (isPlain(saved) && this.#heldInstances(path)) this.#report(path, NOT_MADE);
    return saved;
  }

  /** Whether instances of classes were in a field of the agent, which may have nothing there now. */
  #heldInstances([key, ...inner]: Path): boolean {
    return inner.length === 0 && typeof key === 'string' && this.#putting.instances?.includes(key) === true;
  }

  #fillOnce(live: object, saved: Fields, path: Path): object {
    if (this.#filled.has(live)) {
      this.#report(path, 'The agent has one object here and in another place, where the checkpoint has two.');
      return live;
    }
    this.#placed.set(saved, live);
    this.noteKept(dataOf(live), saved, path);
    this.fill(live, saved, path);
    return live;
  }

  /** Whether a saved value would take away an object of another kind that the code gave the agent. */
  #isMismatch(live: object, saved: unknown): boolean {
    if (isInstance(saved) || sharePrototype(live, saved)) return false;
    return hasOwnCode(live) || (this.#putting.isDescribed === true && !isPlain(live));
  }

  #refuse(live: object, saved: unknown, path: Path): object {
    const problem = `The agent has ${describeValue(live)} here, and the checkpoint ${describeValue(saved)}; the agent keeps its own. Give it a loadState method.`;
    this.#report(path, problem);
    return live;
  }

  /** Looks for objects with code inside of data, so that they stay. */
  #placeInside(live: object, saved: object, path: Path): void {
    this.#placed.set(saved, saved);
    if (isPlain(live) && isPlain(saved)) this.#placeFields(live, saved, path);
    if (Array.isArray(live) && Array.isArray(saved))
      this.#placeItems(this.#sameItems(live, saved), saved.entries(), {
        at: path,
        place: (at) => [...path, at],
        put: (at, item) => saved.splice(at, 1, item),
      });
    if (live instanceof Map && saved instanceof Map)
      this.#placeItems(live, [...saved], {
        at: path,
        place: (key) => [...path, `<key ${String(key)}>`],
        put: (key, item) => saved.set(key, item),
      });
    if (live instanceof Set && saved instanceof Set) this.#checkElements(live, saved, path);
  }

  #checkElements(live: ReadonlySet<unknown>, saved: ReadonlySet<unknown>, path: Path): void {
    const hadInstances = [...live].some(hasOwnCode) || this.#heldInstances(path);
    if (hadInstances && [...saved].some(isPlain)) this.#report([...path, '<element>'], NOT_MADE);
  }

  /** The items of a list by their place; a secret stays only in an item that is otherwise as it was. */
  #sameItems(live: readonly unknown[], saved: readonly unknown[]): ReadonlyMap<number, unknown> {
    const items = [...live.entries()].filter(([at, item]) => {
      return findLeftOutSecrets(saved[at]).length === 0 || hasOwnCode(item) || this.#putting.isSame(item, saved[at]);
    });
    return new Map(items);
  }

  #placeItems<Key>(live: ReadonlyMap<Key, unknown>, saved: Iterable<[Key, unknown]>, items: Items<Key>): void {
    const hasInstances = [...live.values()].some(hasOwnCode) || this.#heldInstances(items.at);
    for (const [key, item] of saved) {
      if (hasInstances && !live.has(key) && isPlain(item)) this.#report(items.place(key), NOT_MADE);
      const put = this.#place(live.get(key), item, items.place(key));
      if (put !== item) items.put(key, put);
    }
  }

  /** In an agent that was saved before, plain objects become what they were; only code that is in them stays. */
  #placeFields(live: Fields, saved: Fields, path: Path): void {
    this.#placeChanged(live, saved, path);
    for (const [key, value] of Object.entries(live)) {
      const place = [...path, key];
      if (Object.hasOwn(saved, key)) define(saved, key, this.#place(value, saved[key], place));
      else if (value !== undefined && (this.#putting.isNew || hasOwnCode(value))) {
        define(saved, key, value);
        this.problems.push(keptField(place));
      }
    }
  }

  /** What an object of an agent that was just made has of another kind than the checkpoint. */
  #placeChanged(live: Fields, saved: Fields, path: Path): void {
    const { isNew, isCodeKept = false } = this.#putting;
    for (const one of isNew ? findChanged(saved, live) : []) {
      this.problems.push(changedField(one, isCodeKept, path));
      if (isCodeKept) define(saved, one.field, live[one.field]);
    }
  }

  #report(path: Path, problem: string): void {
    this.problems.push({ path: formatPath(path), problem });
  }
}

const COMPUTED = 'The agent computes this field, and now to another value than was saved.';
const CHANGED = 'The agent has a setter for this field, which makes another value of the saved one.';
const NOT_MADE =
  'Instances of a class were here, and the checkpoint has plain data, of which none can be made. Give the agent a loadState method.';

/** The fields of an agent that are, or hold, instances of classes. */
export function fieldsWithInstances(agent: object): string[] {
  const fields = Object.entries(dataOf(agent)).filter(([, value]) => !isHandle(value));
  return fields.filter(([, value]) => hasOwnCode(value) || holdsInstances(value)).map(([key]) => key);
}

/** So many items of a list are looked at: the others are of the same kind. */
const MAX_LOOKED_AT = 100;

function holdsInstances(value: unknown): boolean {
  if (!Array.isArray(value) && !(value instanceof Map) && !(value instanceof Set)) return false;
  let count = 0;
  for (const item of value.values()) {
    if (hasOwnCode(item)) return true;
    if (++count === MAX_LOOKED_AT) return false;
  }
  return false;
}

/** The objects with code that an agent has, itself included: what a restore may write to. */
export function objectsWithCode(agent: object): ReadonlySet<object> {
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

/** Whether a saved value is there, and another one than the agent has. */
function isNews(live: unknown, saved: unknown): boolean {
  return saved !== undefined && saved !== null && saved !== live;
}

/** Whether an object is more than data: of a class of the caller's, or with a method, getter or setter of its own. */
function hasOwnCode(value: unknown): value is object {
  if (!isObject(value)) return false;
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype !== null && !isBuiltIn(prototype)) return true;
  return isPlain(value) && Object.values(Object.getOwnPropertyDescriptors(value)).some(isCode);
}

/** The fields of an object that no code computes. */
function dataOf(value: object): Fields {
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

function isPlain(value: unknown): value is Fields {
  if (!isRecord(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Whether a value is of a class, as it was when it was saved. */
function isInstance(value: unknown): boolean {
  return isObject(value) && !DATA.has(Object.getPrototypeOf(value));
}

const DATA: ReadonlySet<unknown> = new Set([null, Object.prototype, Array.prototype, Map.prototype, Set.prototype]);

function sharePrototype(one: object, other: unknown): boolean {
  return isObject(other) && Object.getPrototypeOf(one) === Object.getPrototypeOf(other);
}

/** How an item of a list or map is named and replaced. */
type Items<Key> = {
  readonly at: Path;
  readonly place: (key: Key) => Path;
  readonly put: (key: Key, item: unknown) => void;
};

type Field = readonly [key: string, value: unknown];

function assign(target: object, [key, value]: Field, kind: FieldKind): string | undefined {
  if (kind === 'method') return 'The agent has a method of this name, so the saved value was left out.';
  if (kind === 'setter') return assignBySetter(target, [key, value]);
  if (define(target, key, value)) return undefined;
  return Object.hasOwn(target, key)
    ? 'The agent has this field read-only, and keeps its own value.'
    : 'The agent lacks this field, and none can be added to it.';
}

/** Sets a field as data; what cannot be defined anew, as in a sealed object, may still be set. */
function define(target: object, key: string, value: unknown): boolean {
  const isFixed = Reflect.getOwnPropertyDescriptor(target, key)?.configurable === false;
  const rest = isFixed ? {} : { writable: true, enumerable: true, configurable: true };
  return Reflect.defineProperty(target, key, { value, ...rest });
}

function assignBySetter(target: object, [key, value]: Field): string | undefined {
  try {
    Reflect.set(target, key, value);
    return undefined;
  } catch (error) {
    return `The agent refuses the saved value: ${messageOf(error)}`;
  }
}

type FieldKind = 'field' | 'setter' | 'computed' | 'method';

/** What an assignment would meet. Data of the object's own is not met, but replaced; so is a function, by nothing. */
function kindOf(target: object, [key, value]: Field): FieldKind {
  const found = findProperty(target, key);
  if (found === undefined) return 'field';
  const isUnset = found.isOwn && (value ?? undefined) === undefined;
  return isUnset && 'value' in found.property ? 'field' : kindOfProperty(found.property);
}

/** The property that a key leads to, of the object or its classes. `__proto__` is a key like others: it never leads to the prototype. */
function findProperty(target: object, key: string): { property: PropertyDescriptor; isOwn: boolean } | undefined {
  for (let at: object | null = target; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    const property = Reflect.getOwnPropertyDescriptor(at, key);
    if (property !== undefined) return { property, isOwn: at === target };
    if (key === '__proto__') return undefined; // what is not this realm's Object.prototype may have the accessor, too
  }
  return undefined;
}

function kindOfProperty({ get, set, value }: PropertyDescriptor): FieldKind {
  if (set !== undefined) return 'setter';
  if (get !== undefined) return 'computed';
  return typeof value === 'function' ? 'method' : 'field';
}
