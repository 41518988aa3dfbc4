import { setField } from '../defined.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import {
  asList,
  type Cursor,
  isTagged,
  type Json,
  parseChunkText,
  readFields,
  readTag,
  readTree,
  TAG_START,
  takeRef,
} from '../value/grammar.ts';

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
type NodeRef = { readonly ref: Ref; readonly items: number };

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

function link(json: Json, cursor: Cursor<Digest>): Linked {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return linkItems(json, cursor);
  if (!isTagged(json)) return linkFields(Object.entries(json), json as LinkedObject, cursor);
  const tagged = readTag(json);
  return tagged === 0 ? new Ref(takeRef(cursor)) : linkTag(tagged, cursor);
}

function linkItems(json: Json[], cursor: Cursor<Digest>): Linked[] {
  const items: Linked[] = json;
  for (let at = 0; at < items.length; at++) items[at] = link(json[at] as Json, cursor);
  return items;
}

function linkFields(fields: readonly [string, Json][], target: LinkedObject, cursor: Cursor<Digest>): LinkedObject {
  for (const [key, value] of fields) setField(target, key, link(value, cursor));
  return target;
}

function linkTag([tag, ...args]: readonly [string, ...Json[]], cursor: Cursor<Digest>): Linked {
  const object = readFields(tag, args[0]);
  if (object !== undefined) return linkFields(object.fields, object.kind === 'bare' ? Object.create(null) : {}, cursor);
  if (tag === 'Map') return new Pairs(linkItems(asList(args[0]), cursor) as Linked[][]);
  return tag === 'tree' ? linkTree(args, cursor) : new Opaque(tag, linkItems(args, cursor));
}

function linkTree(args: readonly Json[], cursor: Cursor<Digest>): Tree {
  const { kind, count, rows, items } = readTree(args);
  const levels = rows.map((counts) => counts.map((below) => ({ ref: new Ref(takeRef(cursor)), items: below })));
  return new Tree(kind, count, { levels, items: linkItems(items, cursor) });
}

/** Whether two values are the same: what a value is written as, refs and all, depends on the value alone. */
export function isSameLinked(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  return Array.isArray(a) ? isSameList(a, b as unknown[]) : isSameFields(a as Fields, b as Fields);
}

type Fields = { readonly [key: string]: unknown };

function isSameFields(a: Fields, b: Fields): boolean {
  const keys = Object.keys(a);
  const others = Object.keys(b);
  if (keys.length !== others.length) return false;
  let at = 0;
  for (const key of keys) if (key !== others[at++] || !isSameLinked(a[key], b[key])) return false;
  return true;
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (!isSameLinked(a[at], b[at])) return false;
  return true;
}

/** Collects the refs in a value, without those below them. */
export function collectRefs(value: unknown, into: Digest[]): void {
  if (value instanceof Ref) into.push(value.digest);
  else if (typeof value === 'object' && value !== null)
    for (const child of Object.values(value)) collectRefs(child, into);
}
