import type { ChunkContent, Digest } from '../chunk.ts';
import { CorruptError } from '../errors.ts';
import { TAG_START } from '../format.ts';
import { setField } from '../odd-key.ts';

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

type Cursor = { readonly refs: readonly Digest[]; next: number };

/** Parses a chunk and puts its refs where its text has their places. */
export function linkChunk({ text, refs }: ChunkContent): Linked {
  const json = parse(text);
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

function parse(text: string): Linked {
  try {
    return JSON.parse(text) as Linked;
  } catch (cause) {
    throw new CorruptError('A chunk does not hold JSON.', { cause });
  }
}

function link(json: Linked, cursor: Cursor): Linked {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) {
    for (let at = 0; at < json.length; at++) json[at] = link(json[at] as Linked, cursor);
    return json;
  }
  const fields = json as LinkedObject;
  return firstKey(fields) === '$' ? linkTag(fields.$ as Linked, cursor) : linkFields(fields, fields, cursor);
}

/** Every key of `target` is its own already, or it has no prototype: assigning sets plain data, `__proto__` too. */
function linkFields(fields: LinkedObject, target: LinkedObject, cursor: Cursor): LinkedObject {
  for (const key of Object.keys(fields)) target[key] = link(fields[key] as Linked, cursor);
  return target;
}

function linkPairs(pairs: Linked[][], target: LinkedObject, cursor: Cursor): LinkedObject {
  for (const [key, value] of pairs) setField(target, key as string, link(value as Linked, cursor));
  return target;
}

function linkTag(tagged: Linked, cursor: Cursor): Linked {
  if (tagged === 0) return new Ref(takeRef(cursor));
  if (!Array.isArray(tagged) || typeof tagged[0] !== 'string') throw new CorruptError('A tagged value has no tag.');
  const [tag, ...args] = tagged as [string, ...Linked[]];
  switch (tag) {
    case 'object':
      return linkFields(args[0] as LinkedObject, args[0] as LinkedObject, cursor);
    case 'bare':
      return linkFields(args[0] as LinkedObject, Object.create(null) as LinkedObject, cursor);
    case 'fields':
      return linkPairs(args[0] as Linked[][], {}, cursor);
    case 'bareFields':
      return linkPairs(args[0] as Linked[][], Object.create(null) as LinkedObject, cursor);
    case 'Map':
      return new Pairs(link(args[0] as Linked, cursor) as Linked[][]);
    case 'tree':
      return linkTree(args, cursor);
    default:
      return new Opaque(tag, link(args, cursor) as Linked[]);
  }
}

function linkTree([kind, count, edges]: Linked[], cursor: Cursor): Tree {
  const rows = edges as Linked[][];
  const levels = rows
    .slice(0, -1)
    .map((counts) => counts.map((items) => ({ digest: takeRef(cursor), items: items as number })));
  const items = link(rows.at(-1) as Linked[], cursor) as Linked[];
  return new Tree(String(kind), count as number, { levels, items });
}

function takeRef(cursor: Cursor): Digest {
  const digest = cursor.refs[cursor.next++];
  if (digest === undefined) throw new CorruptError('A chunk uses more references than it has.');
  return digest;
}

function firstKey(json: object): string | undefined {
  for (const key in json) return key;
  return undefined;
}
