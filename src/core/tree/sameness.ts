import type { Shadow, ShadowChild } from './shadow.ts';

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
  return a === b ? a !== 0 || Object.is(a, b) : Object.is(a, b);
}

export function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, at) => isSame(item, b[at]));
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

/** How many pairs of a large object are the same at both ends. */
export function commonEnds(a: Shadow, b: Shadow): { prefix: number; suffix: number } {
  const isEqualAt = (i: number, j: number) => a.keys[i] === b.keys[j] && isSame(a.children[i], b.children[j]);
  const end = Math.min(a.keys.length, b.keys.length);
  let prefix = 0;
  while (prefix < end && isEqualAt(prefix, prefix)) prefix++;
  let suffix = 0;
  while (suffix < end - prefix && isEqualAt(a.keys.length - 1 - suffix, b.keys.length - 1 - suffix)) suffix++;
  return { prefix, suffix };
}
