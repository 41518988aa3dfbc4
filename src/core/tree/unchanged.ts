import { isUntouched } from '../value/field-trace.ts';
import { isSame } from './sameness.ts';
import { Shadow, type ShadowChild } from './shadow.ts';

type Fields = { readonly [key: string]: unknown };

/** Arrays longer than this are checked for stray properties only when first seen: the check reads every key. */
export const STRAY_CHECK_ITEMS = 64;

/**
 * Whether a live value is still what is remembered of it: the walk over what did not change, which is nearly all of a state, without
 * what a walk needs to describe a change. `false` also where only the full walk can tell.
 */
export function isUnchanged(value: unknown, before: ShadowChild): boolean {
  if (!(before instanceof Shadow)) return isSame(value, before);
  if (before.source !== value) return false;
  return before.trace === undefined ? before.isFrozen || isSameContent(value, before) : isUntouched(before.trace);
}

function isSameContent(value: unknown, before: Shadow): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: object | null = Object.getPrototypeOf(value);
  switch (before.kind) {
    case 'object':
      return prototype === Object.prototype && isSameRecord(value as Fields, before);
    case 'Array':
      return prototype === Array.prototype && isSameArray(value as unknown[], before);
    default:
      return false;
  }
}

function isSameRecord(value: Fields, { keys, children }: Shadow): boolean {
  let at = 0;
  for (const key in value) {
    if (key !== keys[at]) return false;
    const now = value[key];
    const then = children[at];
    if (!isSame(now, then) && !isUnchanged(now, then)) return false; // nearly all are the same primitive
    at++;
  }
  return at === keys.length;
}

function isSameArray(value: readonly unknown[], { children }: Shadow): boolean {
  if (value.length !== children.length) return false;
  for (let at = 0; at < children.length; at++) if (!isUnchanged(value[at], children[at])) return false;
  return value.length > STRAY_CHECK_ITEMS || countKeys(value) === value.length;
}

/** How many enumerable properties an object has. */
function countKeys(value: object): number {
  let count = 0;
  for (const _ in value) count++;
  return count;
}
