import type { Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild, type TreeLevels } from '../tree/shadow.ts';
import { type Entry, isMarkedDigest, isMarkedText, NO_TREE, type TreeBefore } from '../tree/tree.ts';
import { COLLECTION_MIN_ITEMS, FLAT_CHARS, OBJECT_MIN_ITEMS, REF_WEIGHT } from '../value/format.ts';
import { fieldLeads, REF_TEXT, wrapFields, writeTag } from '../value/grammar.ts';

/** An element of a tree on its way into a node: its text, or a ref. */
export type Item = Entry & { readonly text: string; readonly refs: readonly Digest[] };

/** One child of a record: what comes before it, its key if it has one, and itself. */
export type Part = { readonly lead: string; readonly key: string | undefined; readonly child: ShadowChild };

const NO_REFS: readonly Digest[] = [];

/** The tree that a shadow has already, or that of the one it was changed from. A Map's children come in pairs. */
export function treeBefore(shadow: Shadow): TreeBefore {
  const { kind, levels, change } = shadow;
  if (levels !== undefined) return { levels, length: itemCount(shadow), prefix: itemCount(shadow), suffix: 0 };
  if (change?.from.levels === undefined) return NO_TREE;
  const { from, prefix, suffix } = change;
  const ends = kind === 'Map' ? { prefix: prefix >> 1, suffix: suffix >> 1 } : { prefix, suffix };
  return { levels: from.levels as TreeLevels, length: itemCount(from), ...ends };
}

/** Wraps a key and its value. */
export const PAIR = new Shadow('Array', undefined, { children: [] });

export function isRecord(shadow: Shadow): boolean {
  if (shadow.kind === 'object' || shadow.kind === 'bare') return shadow.keys.length < OBJECT_MIN_ITEMS;
  return itemCount(shadow) < COLLECTION_MIN_ITEMS;
}

export function itemCount(shadow: Shadow): number {
  return shadow.kind === 'Map' ? shadow.children.length / 2 : shadow.children.length;
}

export function recordParts(shadow: Shadow): Part[] {
  if (shadow.kind !== 'object' && shadow.kind !== 'bare') {
    return shadow.children.map((child, at) => ({ lead: partLead(shadow, at), key: mapKey(shadow, at), child }));
  }
  const leads = fieldLeads(shadow.keys);
  return shadow.children.map((child, at) => ({ lead: leads[at] as string, key: shadow.keys[at], child }));
}

/** The text a Map's value stands under. */
function mapKey({ kind, children }: Shadow, at: number): string | undefined {
  const key = kind === 'Map' && at % 2 === 1 ? children[at - 1] : undefined;
  return typeof key === 'string' ? key : undefined;
}

function partLead(shadow: Shadow, at: number): string {
  if (shadow.kind !== 'Map') return at === 0 ? '' : ',';
  if (at % 2 === 1) return ',';
  return at === 0 ? '[' : '],[';
}

/** The parts of a collection that may be short enough to be written flat; undefined if it has too many elements for that, or too long ones. */
export function flatParts(shadow: Shadow): Part[] | undefined {
  return isLong(shadow) ? undefined : recordParts(shadow);
}

/** Whether what is known of the elements is enough to tell: each has a character, and all but one a comma. */
function isLong({ children }: Shadow): boolean {
  let chars = 2 * children.length - 1;
  for (let at = 0; at < children.length && chars <= FLAT_CHARS; at++) {
    const child = children[at];
    if (child instanceof Shadow) chars += child.textChars - 1;
  }
  return chars > FLAT_CHARS;
}

export function wrap(shadow: Shadow, text: string): string {
  switch (shadow.kind) {
    case 'object':
    case 'bare':
      return wrapFields(text, shadow.keys, shadow.kind === 'bare');
    case 'Map':
      return writeTag('Map', `[${text}${text === '' ? '' : ']'}]`);
    case 'Set':
      return writeTag('Set', `[${text}]`);
    case 'Error':
    case 'class':
      return writeTag(shadow.kind, JSON.stringify(shadow.keys[0]), text);
    default:
      return `[${text}]`;
  }
}

export function textItem(text: string): Item {
  return { text, refs: NO_REFS, weight: text.length + 1, isMarked: isMarkedText(text), items: 1 };
}

export function refItem(refs: readonly [Digest]): Item {
  return { text: REF_TEXT, refs, weight: REF_WEIGHT, isMarked: isMarkedDigest(refs[0]), items: 1 };
}

/** The key and the value of one entry of a large object or Map. Keys of objects are names, not texts that might be secrets. */
export function pairParts({ kind, keys, children }: Shadow, index: number): Part[] {
  if (kind !== 'Map') {
    const key = keys[index] as string;
    return [{ lead: `${JSON.stringify(key)},`, key, child: children[index] }];
  }
  const key = children[index * 2];
  return [
    { lead: '', key: undefined, child: key },
    { lead: ',', key: typeof key === 'string' ? key : undefined, child: children[index * 2 + 1] },
  ];
}
