import { Shadow, type ShadowChild } from './shadow.ts';

/** What a key, a comma and the brackets of a container add, roughly. */
export const OVERHEAD = 4;
export const OTHER_PRIMITIVE = 8;

/** Characters that fill up the base64 of bytes. */
export const PADDING = 2;

/** The size of an object without children, or of a special primitive, by what is written after its tag; never more than `sizeOf`. */
export function sizeOfAtom(value: unknown, written: unknown): number {
  if (typeof value !== 'object') return OTHER_PRIMITIVE;
  return typeof written === 'string' ? Math.max(0, written.length - PADDING) : 0;
}

/** The logical size of a value, in bytes of text with nothing shared, to within a few percent. Costs what changed. */
export function sizeOf(child: ShadowChild): number {
  if (typeof child === 'string') return child.length + OVERHEAD;
  if (!(child instanceof Shadow)) return OTHER_PRIMITIVE;
  if (child.sizeChars === 0) child.sizeChars = measure(child);
  return child.sizeChars;
}

function measure(shadow: Shadow): number {
  if (shadow.kind === 'text') return (shadow.source as string).length + OVERHEAD;
  if (shadow.kind === 'bytes') return Math.ceil(((shadow.children[0] as Uint8Array).length * 4) / 3) + OVERHEAD;
  const keys = shadow.keys.reduce((sum, key) => sum + key.length + OVERHEAD, 0);
  const { change, children } = shadow;
  if (change === undefined) return OVERHEAD + keys + sum(children);
  const { from, prefix, suffix } = change;
  const added = sum(children.slice(prefix, children.length - suffix));
  const removed = sum(from.children.slice(prefix, from.children.length - suffix));
  const oldKeys = from.keys.reduce((total, key) => total + key.length + OVERHEAD, 0);
  return sizeOf(from) - oldKeys + keys - removed + added;
}

function sum(children: readonly ShadowChild[]): number {
  let total = 0;
  for (const child of children) total += sizeOf(child);
  return total;
}
