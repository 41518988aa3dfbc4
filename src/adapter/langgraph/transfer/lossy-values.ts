import { isDeepStrictEqual } from 'node:util';
import type { SerializerProtocol } from '@langchain/langgraph-checkpoint';
import { formatPath, type PathStep } from '../../../core/path.ts';

/** What a serializer does not keep. `isFatal`: the value around it is lost with it. */
type Loss = { readonly path: string; readonly reason: string; readonly isFatal: boolean };

type Checked = { readonly items: readonly unknown[]; readonly losses: readonly (Loss | undefined)[] };

/** Finds what does not come back from a serializer as it went in, by sending it there and back. */
export class LossFinder {
  readonly #serde: SerializerProtocol;
  /** The list that was checked last under each name: the next one mostly begins with the same items. */
  readonly #lists = new Map<string, Checked>();

  constructor(serde: SerializerProtocol) {
    this.#serde = serde;
  }

  /** The first loss in a value; undefined if all of it survives. What was found of a list is remembered under the name. */
  async find(value: unknown, name: string): Promise<Loss | undefined> {
    if (!Array.isArray(value)) return this.#check(value, []);
    const before = this.#lists.get(name);
    const losses: (Loss | undefined)[] = [];
    for (const [at, item] of value.entries()) {
      const isKnown = before !== undefined && at < before.items.length && isDeepStrictEqual(item, before.items[at]);
      losses.push(isKnown ? before.losses[at] : await this.#check(item, [at]));
    }
    this.#lists.set(name, { items: value, losses });
    return losses.find((loss) => loss !== undefined);
  }

  async #check(value: unknown, at: readonly PathStep[]): Promise<Loss | undefined> {
    // Inside an array, because the serializer has another way with bytes that stand alone.
    const [type, bytes] = await this.#serde.dumpsTyped([value]);
    const back: unknown = await this.#serde.loadsTyped(type, bytes);
    if (!Array.isArray(back)) return this.#locate(value, at);
    const change = findChange(value, back[0], at);
    if (change === undefined) return undefined;
    const reason = `the target's serializer turns ${describe(change.before)} into ${describe(change.after)}`;
    return { path: formatPath(change.path), reason, isFatal: false };
  }

  /** Where the serializer gives up, and stores a placeholder for everything around it. */
  async #locate(value: unknown, at: readonly PathStep[]): Promise<Loss> {
    const children = isObject(value) && isFielded(value) ? fieldsOf(value) : [];
    for (const key of children) {
      const step = Array.isArray(value) ? Number(key) : key;
      const loss = await this.#check((value as Fields)[key], [...at, step]);
      if (loss?.isFatal) return loss;
    }
    const reason = `the target's serializer cannot write ${describe(value)}, and would lose everything around it`;
    return { path: formatPath(at), reason, isFatal: true };
  }
}

type Change = { readonly path: readonly PathStep[]; readonly before: unknown; readonly after: unknown };

/** The first place at which two values differ. */
function findChange(before: unknown, after: unknown, path: readonly PathStep[]): Change | undefined {
  if (Object.is(before, after)) return undefined;
  const here = { path, before, after };
  if (!isObject(before) || !isObject(after) || !isSameKind(before, after)) return here;
  if (isCollection(before) && isCollection(after)) return findChange([...before], [...after], path);
  if (!isFielded(before)) return isDeepStrictEqual(before, after) ? undefined : here;
  return findFieldChange(before, after, path);
}

function findFieldChange(before: Fields, after: Fields, path: readonly PathStep[]): Change | undefined {
  for (const key of new Set([...fieldsOf(before), ...fieldsOf(after)])) {
    const at = [...path, Array.isArray(before) ? Number(key) : key];
    if (isLost(key, before, after)) return { path: at, before: before[key], after: undefined };
    const change = findChange(before[key], after[key], at);
    if (change !== undefined) return change;
  }
  return undefined;
}

function isCollection(value: object): value is ReadonlyMap<unknown, unknown> | ReadonlySet<unknown> {
  return value instanceof Map || value instanceof Set;
}

type Fields = { readonly [key: string]: unknown };

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

/** LangGraph knows values of its own classes by their fields, so they may come back as plain data. */
function isSameKind(before: Fields, after: Fields): boolean {
  return 'lg_name' in before || classOf(before) === classOf(after);
}

function classOf(value: object): string {
  return (Object.getPrototypeOf(value) as { constructor?: { name: string } } | null)?.constructor?.name ?? 'Object';
}

/** Whether a value is what its fields are; others have their content inside. */
function isFielded(value: Fields): boolean {
  return Array.isArray(value) || classOf(value) === 'Object' || 'lc_serializable' in value || 'lg_name' in value;
}

/** What classes keep beside their fields is made of them. */
function fieldsOf(value: Fields): string[] {
  const keys = Object.keys(value);
  return isPlain(value) ? keys : keys.filter((key) => !key.startsWith('lc_') && key !== 'lg_name');
}

function isPlain(value: object): boolean {
  return Array.isArray(value) || classOf(value) === 'Object';
}

/** A field without a value is none, except in plain data. */
function isLost(key: string, before: Fields, after: Fields): boolean {
  return isPlain(before) && Object.hasOwn(before, key) !== Object.hasOwn(after, key);
}

function describe(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'object') return `a value of class ${classOf(value)}`;
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  return value === undefined ? 'undefined' : `a ${typeof value}`;
}
