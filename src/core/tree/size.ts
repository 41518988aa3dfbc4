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
  const { change } = shadow;
  if (change === undefined) return OVERHEAD + sumBetween(shadow, 0, 0);
  const { from, prefix, suffix } = change;
  return sizeOf(from) - sumBetween(from, prefix, suffix) + sumBetween(shadow, prefix, suffix);
}

/** The size of the children, and of their keys, without so many at both ends. */
function sumBetween({ keys, children }: Shadow, prefix: number, suffix: number): number {
  const end = children.length - suffix;
  let total = 0;
  for (let at = prefix; at < end; at++) total += sizeOf(children[at]);
  for (let at = prefix; at < Math.min(end, keys.length); at++) total += (keys[at] as string).length + OVERHEAD;
  return total;
}
