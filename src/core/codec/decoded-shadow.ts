import { shareKeys } from '../tree/sameness.ts';
import { Shadow, type ShadowChild, type ShadowKind, type TreeNode } from '../tree/shadow.ts';
import { OVERHEAD } from '../tree/size.ts';
import { cutBytes } from '../tree/text-pieces.ts';
import { atomBytes } from '../value/atom.ts';
import { FIELD_CHARS } from '../value/format.ts';
import { type Json, type JsonObject, writeTag } from '../value/grammar.ts';
import type { Content } from './parts.ts';
import { addTo, type Tally } from './read-budget.ts';

/** What a shadow has for a primitive: itself, or the shadow of a long text. */
export function toChild(json: Json): ShadowChild {
  return typeof json === 'string' && json.length > FIELD_CHARS ? textShadow(json) : json;
}

export function textShadow(text: string): Shadow {
  const shadow = new Shadow('text', text, {});
  shadow.isFrozen = true;
  return shadow;
}

/** The shadow of a container that was made of what is in it. */
export function containerShadow(
  kind: ShadowKind,
  source: unknown,
  { keys, values: children }: { readonly keys: readonly string[]; readonly values: readonly ShadowChild[] },
): Shadow {
  const shadow = new Shadow(kind, source, keys.length === 0 ? { children } : { keys: shareKeys(keys), children });
  shadow.holdsZero = children.includes(0);
  return shadow;
}

/** The shadow of an object without children; a special primitive is its own. */
export function atomShadow(tag: string, args: readonly Json[], value: unknown): ShadowChild {
  if (typeof value !== 'object' || value === null) return value;
  const bytes = atomBytes(value);
  if (bytes !== undefined) return new Shadow('bytes', value, { keys: [tag], children: [Uint8Array.from(bytes)] });
  const text = writeTag(tag, ...args.map((part) => JSON.stringify(part)));
  return new Shadow('atom', value, { keys: [tag], children: [text] });
}

/** Notes how a tree is cut, which the next save builds on. */
export function noteTree(shadow: Shadow, levels: readonly (readonly TreeNode[])[], { kind, values }: Content): void {
  shadow.levels = levels.map((nodes) => ({ nodes, entries: nodes.reduce((sum, node) => sum + node.entries, 0) }));
  if (shadow.kind === 'bytes') shadow.items = cutBytes(shadow.children[0] as Uint8Array).ends;
  if (kind !== 'text') return;
  let end = 0;
  shadow.items = (values as readonly string[]).map((piece) => (end += piece.length));
}

/** Adds a value without tags to a tally, and makes its shadow on the way. */
export function addShadow(tally: Tally, json: Json, depth: number): ShadowChild {
  if (typeof json !== 'object' || json === null || depth >= tally.maxDepth) {
    addTo(tally, json, depth);
    return typeof json === 'string' ? toChild(json) : json;
  }
  const from = tally.bytes;
  tally.nodes++;
  tally.bytes += OVERHEAD;
  const shadow = Array.isArray(json) ? addItems(tally, json, depth + 1) : addFields(tally, json, depth + 1);
  shadow.sizeChars = tally.bytes - from;
  return shadow;
}

const NO_KEYS: readonly string[] = [];

function addItems(tally: Tally, json: Json[], depth: number): Shadow {
  const values = json.map((item) => addShadow(tally, item, depth));
  return containerShadow('Array', json, { keys: NO_KEYS, values });
}

function addFields(tally: Tally, json: JsonObject, depth: number): Shadow {
  const keys = Object.keys(json);
  const values = keys.map((key) => {
    tally.bytes += key.length + OVERHEAD;
    return addShadow(tally, json[key] as Json, depth);
  });
  return containerShadow('object', json, { keys, values });
}
