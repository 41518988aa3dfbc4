import type { ChunkContent, Digest } from '../tree/chunk.ts';
import {
  asFieldPairs,
  asFields,
  asList,
  type Cursor,
  firstKey,
  type Json,
  type JsonObject,
  parseChunkText,
  readTag,
  readTree,
  takeRef,
} from '../tree/chunk-text.ts';
import { TAG_START } from '../value/format.ts';
import { setField } from '../value/odd-key.ts';

/** Stands for the value of another chunk. */
export class Ref {
  readonly digest: Digest;

  constructor(digest: Digest) {
    this.digest = digest;
  }
}

/** A tagged value that is compared as a whole: an atom, a special primitive, a set, an error, a class instance. */
export class Opaque {
  readonly tag: string;
  readonly args: readonly Linked[];

  constructor(tag: string, args: readonly Linked[]) {
    this.tag = tag;
    this.args = args;
  }
}

/** A map that is written flat. */
export class Pairs {
  readonly pairs: readonly (readonly Linked[])[];

  constructor(pairs: readonly (readonly Linked[])[]) {
    this.pairs = pairs;
  }
}

/** A closed node as its parent names it. */
export type NodeRef = { readonly digest: Digest; readonly items: number };

/** A collection that is written as a tree: the open edge of each level, highest first, and the open items. */
export class Tree {
  readonly kind: string;
  readonly count: number;
  readonly levels: readonly (readonly NodeRef[])[];
  readonly items: readonly Linked[];

  constructor(kind: string, count: number, edges: Pick<Tree, 'levels' | 'items'>) {
    this.kind = kind;
    this.count = count;
    this.levels = edges.levels;
    this.items = edges.items;
  }
}

export type LinkedObject = { [key: string]: Linked };

/**
 * A parsed chunk whose tags are told from plain data by their class. Plain objects and arrays stand for themselves, and an
 * object without prototype for one without prototype, so that the common chunk needs no step after `JSON.parse`.
 */
export type Linked = null | boolean | number | string | Linked[] | LinkedObject | Ref | Opaque | Pairs | Tree;

/** Parses a chunk and puts its refs where its text has their places. */
export function linkChunk({ text, refs }: ChunkContent): Linked {
  const json = parseChunkText(text);
  return text.includes(TAG_START) ? link(json, { refs, next: 0 }) : json;
}

/** The kind that two values must share to be compared inside; everything else is replaced as a whole. */
export function kindOf(value: Exclude<Linked, Ref>): string {
  if (typeof value !== 'object' || value === null) return 'primitive';
  if (Array.isArray(value)) return 'Array';
  if (value instanceof Pairs) return 'Map';
  if (value instanceof Opaque) return WHOLE_TAGS.has(value.tag) ? 'primitive' : `whole ${value.tag}`;
  if (value instanceof Tree) return treeKind(value.kind);
  return Object.getPrototypeOf(value) === null ? 'bare' : 'object';
}

const WHOLE_TAGS = new Set(['undefined', 'bigint', 'number', 'secret']);

function treeKind(kind: string): string {
  if (kind === 'text') return 'primitive';
  return kind === 'Array' || kind === 'Map' || kind === 'object' || kind === 'bare' ? kind : `whole ${kind}`;
}

function link(json: Json, cursor: Cursor): Linked {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return linkItems(json, cursor);
  return firstKey(json) === '$' ? linkTag(json.$, cursor) : linkFields(json, json, cursor);
}

function linkItems(json: Json[], cursor: Cursor): Linked[] {
  const items: Linked[] = json;
  for (let at = 0; at < items.length; at++) items[at] = link(json[at] as Json, cursor);
  return items;
}

/** Every key of `target` is its own already, or it has no prototype: assigning sets plain data, `__proto__` too. */
function linkFields(fields: JsonObject, target: LinkedObject, cursor: Cursor): LinkedObject {
  for (const key of Object.keys(fields)) target[key] = link(fields[key] as Json, cursor);
  return target;
}

function linkPairs(pairs: readonly [string, Json][], target: LinkedObject, cursor: Cursor): LinkedObject {
  for (const [key, value] of pairs) setField(target, key, link(value, cursor));
  return target;
}

function linkTag(tagged: Json | undefined, cursor: Cursor): Linked {
  if (tagged === 0) return new Ref(takeRef(cursor));
  const [tag, ...args] = readTag(tagged);
  switch (tag) {
    case 'object':
      return linkFields(asFields(args[0]), asFields(args[0]), cursor);
    case 'bare':
      return linkFields(asFields(args[0]), Object.create(null) as LinkedObject, cursor);
    case 'fields':
      return linkPairs(asFieldPairs(args[0]), {}, cursor);
    case 'bareFields':
      return linkPairs(asFieldPairs(args[0]), Object.create(null) as LinkedObject, cursor);
    case 'Map':
      return new Pairs(linkItems(asList(args[0]), cursor) as Linked[][]);
    case 'tree':
      return linkTree(args, cursor);
    default:
      return new Opaque(tag, linkItems(args, cursor));
  }
}

function linkTree(args: readonly Json[], cursor: Cursor): Tree {
  const { kind, count, rows, items } = readTree(args);
  const levels = rows.map((counts) => counts.map((below) => ({ digest: takeRef(cursor), items: below })));
  return new Tree(kind, count, { levels, items: linkItems(items, cursor) });
}
