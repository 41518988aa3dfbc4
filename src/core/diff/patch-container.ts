/** Says what is wrong with one operation of a patch; the caller adds which operation it is. */
export class PatchProblem extends Error {}

/** How a patch reads and writes one kind of container. `step` is an unescaped step of a JSON Pointer. */
type Access<C> = {
  copy(container: C): C;
  has(container: C, step: string): boolean;
  get(container: C, step: string): unknown;
  /** Puts a value in a place that exists. */
  set(container: C, step: string, value: unknown): void;
  /** Inserts into an array; sets the key of an object or map, new or not. */
  add(container: C, step: string, value: unknown): void;
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
  set: defineField,
  add: defineField,
  remove: (fields, step) => {
    delete fields[step];
  },
};

const ENTRIES: Access<Map<unknown, unknown>> = {
  copy: (map) => new Map(map),
  has: (map, step) => map.has(step),
  get: (map, step) => map.get(step),
  set: (map, step, value) => void map.set(step, value),
  add: (map, step, value) => void map.set(step, value),
  remove: (map, step) => void map.delete(step),
};

function readIndex(step: string): number {
  if (!INDEX.test(step)) throw new PatchProblem(`"${step}" is no index of an array.`);
  return Number(step);
}

function defineField(fields: Fields, step: string, value: unknown): void {
  Object.defineProperty(fields, step, { value, writable: true, enumerable: true, configurable: true });
}

/** How to read and write a value; throws a PatchProblem if it is no array, object or map. */
export function accessTo(value: unknown): Access<unknown> {
  if (typeof value === 'object' && value !== null) {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (Array.isArray(value)) return LIST as Access<unknown>;
    if (prototype === Object.prototype || prototype === null) return FIELDS as Access<unknown>;
    if (prototype === Map.prototype) return ENTRIES as Access<unknown>;
  }
  throw new PatchProblem('it leads into a value that is no array, object or map.');
}

/** The value at a step; throws a PatchProblem if there is none. */
export function readStep(container: unknown, step: string): unknown {
  const access = accessTo(container);
  if (!access.has(container, step)) throw new PatchProblem(`there is no ${JSON.stringify(step)}.`);
  return access.get(container, step);
}
