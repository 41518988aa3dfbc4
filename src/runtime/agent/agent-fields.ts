import { isDeepStrictEqual } from 'node:util';
import { isPlainObject } from '../../core/options.ts';
import { publicFields } from '../../manager/agent/agent.ts';
import { compareKinds, differenceAt, type FieldKinds, type Fields, kindsOf } from '../../manager/agent/field-kinds.ts';
import { putFields } from '../../manager/agent/put-fields.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';

/** The public fields that an agent has of its own, as they are now: later changes of lists, maps and plain objects do not reach them. */
export function readFields(agent: object): Fields {
  return copyFields(publicFields(agent));
}

type Saving = object & { saveState(): { readonly fields?: Fields } };

const made = new WeakMap<object, FieldKinds>();

/** What the code gives an agent in each field that is saved of it: as it was when this was first asked for, before it works. */
export function madeFields(agent: Saving): FieldKinds {
  const known = made.get(agent) ?? kindsOf(agent.saveState().fields ?? {});
  made.set(agent, known);
  return known;
}

/** Names the saved fields that the code of an agent has otherwise, or not at all; returns what is put back, with them or without. */
export function compareFields(agent: Saving, saved: Fields, { at, isCodeKept }: { at: string; isCodeKept: boolean }) {
  const found = compareKinds(kindsOf(saved), madeFields(agent)).filter(({ kind }) => kind !== 'added');
  const left = new Set(isCodeKept ? found.map(({ field }) => field) : []);
  return {
    problems: moveTo(
      at,
      found.map((one) => differenceAt([], one)),
    ),
    fields: Object.fromEntries(Object.entries(saved).filter(([field]) => !left.has(field))),
  };
}

/**
 * Puts saved fields into an agent; returns what could not be put back, and what the agent has besides. What its class lacks is for those
 * to name who know the class of then: an agent may add fields while it works.
 */
export function loadFields(agent: Saving, saved: Fields, at: string): RestoreProblem[] {
  const own = agent.saveState().fields ?? {}; // what a class leaves out is not missed
  const problems = putFields(agent, copyFields(saved), { own, isNew: false, isSame: isDeepStrictEqual });
  return moveTo(
    at,
    problems.filter(({ kind }) => kind !== 'missing'),
  );
}

function moveTo(at: string, problems: readonly RestoreProblem[]): RestoreProblem[] {
  return problems.map((problem) => ({ ...problem, path: `${at}${problem.path.slice(1)}` }));
}

function copyFields(fields: Fields): Fields {
  return copy(fields, new Map()) as Fields;
}

/** Instances of classes, and what is no data at all, stay what they are. What is there twice is there twice afterwards, too. */
function copy(value: unknown, copies: Map<object, unknown>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (copies.has(value)) return copies.get(value);
  const made = emptyLike(value);
  if (made === undefined) return value;
  copies.set(value, made);
  if (value instanceof Map && made instanceof Map) copyEntries(value, made, copies);
  if (value instanceof Set && made instanceof Set) for (const item of value) made.add(copy(item, copies));
  copyProperties(value, made, copies);
  return made;
}

function copyEntries(value: Map<unknown, unknown>, made: Map<unknown, unknown>, copies: Map<object, unknown>): void {
  for (const [key, item] of value) made.set(key, copy(item, copies));
}

function copyProperties(value: object, made: object, copies: Map<object, unknown>): void {
  for (const key of Reflect.ownKeys(value)) {
    const found = Reflect.getOwnPropertyDescriptor(value, key);
    if (found === undefined) continue;
    const data = { value: copy(found.value, copies), writable: true, configurable: key !== 'length' };
    Reflect.defineProperty(made, key, 'value' in found ? { ...found, ...data } : found);
  }
}

function emptyLike(value: object): object | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Map.prototype) return new Map();
  if (prototype === Set.prototype) return new Set();
  if (prototype === Array.prototype) return [];
  return isPlainObject(value) ? Object.create(Object.getPrototypeOf(value)) : undefined;
}
