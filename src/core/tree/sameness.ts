import { OBJECT_MIN_ITEMS } from '../value/format.ts';
import type { ShadowChild } from './shadow.ts';

/** How many elements are the same from the front. Four at a time: this is where a save of a long frozen list spends its time. */
export function countSame(a: readonly unknown[], b: readonly unknown[], end: number): number {
  let at = 0;
  while (
    at + 4 <= end &&
    a[at] === b[at] &&
    a[at + 1] === b[at + 1] &&
    a[at + 2] === b[at + 2] &&
    a[at + 3] === b[at + 3]
  )
    at += 4;
  while (at < end && isSame(a[at], b[at])) at++;
  return at;
}

export function countExactly(a: readonly unknown[], b: readonly unknown[], end: number): number {
  for (let at = 0; at < end; at++) if (!isSame(a[at], b[at])) return at;
  return end;
}

/** Whether two primitives or shadows are the same; tells `0` from `-0`. */
export function isSame(a: unknown, b: unknown): boolean {
  return Object.is(a, b);
}

export function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && countExactly(a, b, a.length) === a.length;
}

export function replaceIfNew(
  changed: ShadowChild[] | undefined,
  { children, at, after }: { children: readonly ShadowChild[]; at: number; after: ShadowChild },
): ShadowChild[] | undefined {
  if (isSame(after, children[at])) return changed;
  const copy = changed ?? [...children];
  copy[at] = after;
  return copy;
}

/** By its first key the list of keys that was met last: nearly all records have theirs in common with others. */
const sharedKeys = new Map<string | undefined, readonly string[]>();
const MAX_SHARED_KEYS = 1000;

/** The same list of keys, held once for the records that have it one after the other. */
export function shareKeys(keys: readonly string[]): readonly string[] {
  const [first] = keys;
  const known = sharedKeys.get(first);
  if (known !== undefined && isSameList(keys, known)) return known;
  if (keys.length >= OBJECT_MIN_ITEMS) return keys;
  if (sharedKeys.size >= MAX_SHARED_KEYS) sharedKeys.clear();
  sharedKeys.set(first, keys);
  return keys;
}

/** What a list was made of: held weakly, or each would hold all before it. */
const origins = new WeakMap<object, { readonly from: WeakRef<object>; readonly keep: number }>();

/**
 * A frozen list that keeps the first parts of another and gets more. A walk from one to the other need not look at what was kept.
 * Copied first: of a frozen list `concat` takes three times as long, `slice` fifty times.
 */
export function growList<Part>(parts: readonly Part[], keep: number, more: readonly Part[]): readonly Part[] {
  const copy = [...parts];
  copy.length = keep;
  const grown = Object.freeze(copy.concat(more));
  origins.set(grown, { from: new WeakRef(parts), keep });
  return grown;
}

/** How many parts a list kept of another that it was grown from; undefined if it was not. */
export function countKept(list: unknown, from: unknown): number | undefined {
  const origin = typeof list === 'object' && list !== null ? origins.get(list) : undefined;
  return origin !== undefined && origin.from.deref() === from ? origin.keep : undefined;
}
