import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { shareKeys } from '../tree/sameness.ts';
import { Shadow, type ShadowChild, type ShadowKind, type TreeNode } from '../tree/shadow.ts';
import { OVERHEAD } from '../tree/size.ts';
import { cutBytes } from '../tree/text-pieces.ts';
import { atomBytes } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { traceFields } from '../value/field-trace.ts';
import { FIELD_CHARS } from '../value/format.ts';
import { type Json, type JsonObject, writeTag } from '../value/grammar.ts';
import { addTo, type Tally } from './read-budget.ts';

/** What a shadow has for a primitive: itself, or the shadow of a long text. */
export function toChild(json: Json): ShadowChild {
  if (typeof json !== 'string' || json.length <= FIELD_CHARS) return json;
  const shadow = new Shadow('text', json, {});
  shadow.isFrozen = true;
  return shadow;
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

function addItems(tally: Tally, json: Json[], depth: number): Shadow {
  return containerShadow(
    'Array',
    json,
    json.map((item) => addShadow(tally, item, depth)),
  );
}

function addFields(tally: Tally, json: JsonObject, depth: number): Shadow {
  const keys = shareKeys(Object.keys(json));
  const children = keys.map((key) => {
    tally.bytes += key.length + OVERHEAD;
    return addShadow(tally, json[key] as Json, depth);
  });
  return withZero(new Shadow('object', json, { keys, children }));
}

function containerShadow(kind: ShadowKind, value: unknown, children: readonly ShadowChild[] = []): Shadow {
  return withZero(new Shadow(kind, value, { children }));
}

function objectShadow(value: object, children: readonly ShadowChild[] = []): Shadow {
  const kind = Object.getPrototypeOf(value) === null ? 'bare' : 'object';
  return withZero(new Shadow(kind, value, { keys: shareKeys(Object.keys(value)), children }));
}

function withZero(shadow: Shadow): Shadow {
  shadow.holdsZero = shadow.children.includes(0);
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

/** The shadow of an error or class instance, by that of its data. */
export function instanceShadow(
  value: object,
  { kind, name, data }: { readonly kind: 'Error' | 'class'; readonly name: string; readonly data: ShadowChild },
  codecs: ClassCodecs,
): Shadow {
  const shadow = new Shadow(kind, value, { keys: [name], children: [data] });
  const isTold = kind === 'class' && codecs.findReadFields(value, Object.getPrototypeOf(value)) !== undefined;
  shadow.trace = isTold ? traceFields(value, codecs.findReadFields) : undefined;
  return shadow;
}

/** What a tree was read as. */
type ReadTree = {
  readonly kind: string;
  /** The closed nodes of each level. */
  readonly levels: readonly (readonly TreeNode[])[];
  readonly items: readonly unknown[];
  readonly children: readonly ShadowChild[] | undefined;
};

/** The shadow of what is written as a tree. */
export function treeShadow(value: string | object, { kind, levels, items, children }: ReadTree): Shadow {
  const shadow = kindShadow(value, kind, children);
  shadow.levels = levels.map((nodes) => ({ nodes, entries: nodes.reduce((sum, node) => sum + node.entries, 0) }));
  if (kind === 'text') shadow.items = endsOf(items as readonly string[]);
  if (shadow.kind === 'bytes') shadow.items = cutBytes(shadow.children[0] as Uint8Array).ends;
  return shadow;
}

/** The shadow of a value of a kind, by those of what is in it. */
export function kindShadow(value: string | object, kind: string, children: readonly ShadowChild[] | undefined): Shadow {
  switch (kind) {
    case 'Array':
    case 'Map':
    case 'Set':
      return containerShadow(kind, value, children);
    case 'object':
    case 'bare':
      return objectShadow(value as object, children);
    case 'text': {
      const shadow = new Shadow('text', value, {});
      shadow.isFrozen = true;
      return shadow;
    }
    default:
      return atomShadow(kind, [], value) as Shadow;
  }
}

function endsOf(pieces: readonly string[]): number[] {
  let end = 0;
  return pieces.map((piece) => {
    end += piece.length;
    return end;
  });
}

/** Notes that a value is a chunk of its own, and which. */
export function noteChunk(shadow: Shadow, digest: Digest, { text, refs }: ChunkContent): void {
  shadow.digest = digest;
  shadow.textChars = text.length;
  shadow.refs = refs;
}
