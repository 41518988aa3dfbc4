/**
 * What the enumerable fields of a live object held, and those of the plain objects and arrays in it, side by side in one list: that is
 * read many times faster than a tree. For each object itself, its prototype, and then keys and values up to an end mark; for each array
 * its length and elements.
 */
export type FieldTrace = readonly unknown[];

type Fields = { readonly [key: string]: unknown };

/** Which objects a trace may look into besides plain ones; `except` are fields of an instance that it compares as a whole. */
export type TracedClass = { readonly except: readonly string[] };

/** Arrays longer than this are checked for stray properties only when first seen: the check reads every key. */
export const STRAY_CHECK_ITEMS = 64;

/** Longer traces cost more than they save. */
const MAX_TRACE_ITEMS = 4096;

const END = Symbol('end of fields');
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
  findTraced: (inner: object, prototype: object) => TracedClass | undefined,
): FieldTrace | undefined {
  const trace: unknown[] = [];
  const found = [instance];
  for (const source of found) {
    const prototype: object | null = Object.getPrototypeOf(source);
    trace.push(source, prototype);
    if (prototype === Array.prototype) traceArray(source as unknown[], trace, found);
    else {
      const traced = prototype === Object.prototype || prototype === null ? PLAIN : findTraced(source, prototype);
      if (traced === undefined) return undefined;
      traceObject(source as Fields, traced, { trace, found });
    }
    // Also the end of a cycle, which the walk refuses.
    if (trace.length > MAX_TRACE_ITEMS) return undefined;
  }
  return trace;
}

const PLAIN: TracedClass = { except: [] };

function traceArray(source: readonly unknown[], trace: unknown[], found: object[]): void {
  trace.push(source.length);
  for (const value of source) {
    trace.push(mark(value));
    if (typeof value === 'object' && value !== null) found.push(value);
  }
}

function traceObject(
  source: Fields,
  { except }: TracedClass,
  { trace, found }: { trace: unknown[]; found: object[] },
): void {
  for (const key in source) {
    const value = source[key];
    trace.push(key, mark(value));
    if (typeof value === 'object' && value !== null && !except.includes(key)) found.push(value);
  }
  trace.push(END);
}

/** Whether all that was traced is as it was. Sees added and deleted fields too. */
export function isUntouched(trace: FieldTrace): boolean {
  let at = 0;
  while (at >= 0 && at < trace.length) {
    const source = trace[at] as object;
    const prototype = trace[at + 1];
    if (Object.getPrototypeOf(source) !== prototype) return false;
    at =
      prototype === Array.prototype
        ? skipSameItems(source as unknown[], trace, at + 2)
        : skipSameFields(source as Fields, trace, at + 2);
  }
  return at >= 0;
}

/** Where the trace goes on after these fields. */
function skipSameFields(source: Fields, trace: FieldTrace, from: number): number {
  let at = from;
  for (const key in source) {
    const now = source[key];
    const before = trace[at + 1];
    if (trace[at] !== key || (now !== before && mark(now) !== before)) return NOT_SAME;
    at += 2;
  }
  return trace[at] === END ? at + 1 : NOT_SAME;
}

function skipSameItems(source: readonly unknown[], trace: FieldTrace, from: number): number {
  const { length } = source;
  if (trace[from] !== length) return NOT_SAME;
  for (let at = 0; at < length; at++) {
    const now = source[at];
    const before = trace[from + 1 + at];
    if (now !== before && mark(now) !== before) return NOT_SAME;
  }
  const isClean = length > STRAY_CHECK_ITEMS || countKeys(source) === length;
  return isClean ? from + 1 + length : NOT_SAME;
}

/** How many enumerable properties an object has. */
export function countKeys(value: object): number {
  let count = 0;
  for (const _ in value) count++;
  return count;
}
