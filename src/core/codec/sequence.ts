import { isSame } from '../tree/sameness.ts';
import { Shadow, type ShadowChild } from '../tree/shadow.ts';
import { isUntouched } from '../value/field-trace.ts';

/** `fresh`: the children that are not known to be frozen already; all, if absent. */
export type NewContent = {
  readonly keys?: readonly string[];
  readonly children?: readonly ShadowChild[];
  readonly fresh?: readonly ShadowChild[];
  /** Whether a child is 0; looked for if absent. */
  readonly holdsZero?: boolean;
};

/** The elements of a collection, or the values of an object with their keys, and what they were before. */
export type Sequence = {
  readonly source: object;
  readonly items: readonly unknown[];
  /** The same list as the older shadow's, if they are the same. */
  readonly keys?: readonly string[];
  readonly old: Shadow | undefined;
};

/** Whether a sequence is what it was after all, given what its middle was found to be. */
export function isSameSequence(
  { items, keys }: Sequence,
  old: Shadow,
  { prefix, middle }: { readonly prefix: number; readonly middle: readonly ShadowChild[] },
): boolean {
  if (items.length !== old.children.length || (keys !== undefined && keys !== old.keys)) return false;
  return middle.every((child, at) => isSame(child, old.children[prefix + at]));
}

/** The children of a list that changed, and what is known of those it had before. */
export function changedContent(
  old: Shadow,
  middle: readonly ShadowChild[],
  children: readonly ShadowChild[],
): NewContent {
  return { children, fresh: old.isFrozen ? middle : children, holdsZero: old.holdsZero || middle.includes(0) };
}

/** Whether an element is the instance it was, with the fields it had. Nearly all of a long conversation is told by this alone. */
export function isTraced(item: unknown, before: ShadowChild): boolean {
  const trace = before instanceof Shadow ? before.trace : undefined;
  return trace !== undefined && trace[0] === item && isUntouched(trace);
}
