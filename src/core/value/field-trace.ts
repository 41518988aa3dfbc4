/**
 * What the enumerable fields of a live object held, and those of the plain objects and arrays in it, side by side in one list: that is
 * read many times faster than a tree. For each object itself, its shape, and its values; for each array itself, its length, and its
 * elements.
 */
export type FieldTrace = readonly unknown[];

type Fields = { readonly [key: string]: unknown };

/** Which objects a trace may look into besides plain ones; `except` are fields of an instance that it compares as a whole. */
export type ReadFields = { readonly except: readonly string[] };

/** Longer traces cost more than they save. */
const MAX_TRACE_CELLS = 4096;

const NOT_SAME = -1;

/** What stands in a trace for numbers that `===` gets wrong, so that it may be used for all values. */
const ZERO = Symbol('0');
const MINUS_ZERO = Symbol('-0');
const NOT_A_NUMBER = Symbol('NaN');

function mark(value: unknown): unknown {
  if (value === 0) return Object.is(value, 0) ? ZERO : MINUS_ZERO;
  return Number.isNaN(value) ? NOT_A_NUMBER : value;
}

/** Traces an instance; undefined if it holds what fields do not tell all of, such as a Map. */
export function traceFields(
  instance: object,
  findReadFields: (inner: object, prototype: object) => ReadFields | undefined,
): FieldTrace | undefined {
  const trace: unknown[] = [];
  const found = [instance];
  for (const source of found) {
    const prototype: object | null = Object.getPrototypeOf(source);
    if (prototype === Array.prototype) traceArray(source as unknown[], trace, found);
    else {
      const traced = prototype === Object.prototype || prototype === null ? PLAIN : findReadFields(source, prototype);
      if (traced === undefined) return undefined;
      traceObject(source as Fields, traced, { trace, found });
    }
    // Also the end of a cycle, which the walk refuses.
    if (trace.length > MAX_TRACE_CELLS) return undefined;
  }
  return trace;
}

const PLAIN: ReadFields = { except: [] };

function traceArray(source: readonly unknown[], trace: unknown[], found: object[]): void {
  trace.push(source, source.length);
  for (const value of source) {
    trace.push(mark(value));
    if (typeof value === 'object' && value !== null) found.push(value);
  }
}

function traceObject(
  source: Fields,
  { except }: ReadFields,
  { trace, found }: { trace: unknown[]; found: object[] },
): void {
  const shape = shapeOf(source);
  trace.push(source, shape);
  for (const key of shape.keys) {
    const value = source[key];
    trace.push(mark(value));
    if (typeof value === 'object' && value !== null && !except.includes(key)) found.push(value);
  }
}

/** Whether all that was traced is as it was. Sees added and deleted fields too. */
export function isUntouched(trace: FieldTrace): boolean {
  return isUntouchedBetween(trace, 0, trace.length);
}

/** The same of the part of a longer list of traces that lies between two places. */
export function isUntouchedBetween(traces: readonly unknown[], from: number, to: number): boolean {
  let at = from;
  while (at >= 0 && at < to) {
    const shape = traces[at + 1] as ObjectShape | number;
    at = typeof shape === 'number' ? skipSameItems(traces, at, shape) : skipSameFields(traces, at, shape);
  }
  return at >= 0;
}

/** Where the trace goes on after these fields. */
function skipSameFields(traces: readonly unknown[], from: number, { prototype, keys }: ObjectShape): number {
  const source = traces[from] as Fields;
  if (Object.getPrototypeOf(source) !== prototype) return NOT_SAME;
  const values = from + 2;
  let at = 0;
  for (const key in source) {
    const now = source[key];
    const before = traces[values + at];
    if (key !== keys[at] || (now !== before && mark(now) !== before)) return NOT_SAME;
    at++;
  }
  return at === keys.length ? values + at : NOT_SAME;
}

/** Whether it has got properties besides its elements is not asked: that would cost more than all the rest. */
function skipSameItems(traces: readonly unknown[], from: number, length: number): number {
  const source = traces[from] as readonly unknown[];
  if (source.length !== length) return NOT_SAME;
  const items = from + 2;
  for (let at = 0; at < length; at++) {
    const now = source[at];
    const before = traces[items + at];
    if (now !== before && mark(now) !== before) return NOT_SAME;
  }
  return items + length;
}

/** What objects made in the same way have in common. Compared with, it is in the processor's cache, however many objects there are. */
type ObjectShape = { readonly prototype: object | null; readonly keys: readonly string[] };

/** Classes have a few shapes each. Objects with keys of their own would fill the memory. */
const MAX_SHAPES_EACH = 16;

const shapes = new WeakMap<object, ObjectShape[]>();

/** The shape of an object: the same one for nearly all objects like it. */
function shapeOf(source: object): ObjectShape {
  const prototype: object | null = Object.getPrototypeOf(source);
  const known = shapesOf(prototype ?? NO_PROTOTYPE);
  for (const shape of known) if (hasKeys(source, shape.keys)) return shape;
  const shape = { prototype, keys: Object.keys(source) };
  if (known.length === MAX_SHAPES_EACH) known.shift();
  known.push(shape);
  return shape;
}

const NO_PROTOTYPE = {};

function shapesOf(prototype: object): ObjectShape[] {
  let known = shapes.get(prototype);
  if (known === undefined) {
    known = [];
    shapes.set(prototype, known);
  }
  return known;
}

/** Whether an object has exactly these keys, in this order. */
function hasKeys(source: object, keys: readonly string[]): boolean {
  let at = 0;
  for (const key in source) if (key !== keys[at++]) return false;
  return at === keys.length;
}
