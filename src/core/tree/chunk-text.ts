import { CorruptError } from '../errors.ts';
import type { ChunkContent, Digest } from './chunk.ts';

/** What the text of a chunk holds, tags not yet read. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** The refs of the chunk being read; taken in reading order. */
export type Cursor = { readonly refs: readonly Digest[]; next: number };

/** No tree of ours is higher: each node holds four of the level below, so that this is enough for 2^64 elements. */
export const MAX_TREE_HEIGHT = 32;

/** Parses the text of a chunk. */
export function parseChunkText(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new CorruptError('A chunk does not hold JSON.', { cause });
  }
}

/** The same, if the text is the one that such a value is written as: a key that comes twice, or a space, is in no value. */
export function parseExactText(text: string): Json {
  const json = parseChunkText(text);
  if (!isWrittenAs(json, text)) throw new CorruptError('A chunk is not written as chunks are.');
  return json;
}

function isWrittenAs(json: Json, text: string): boolean {
  try {
    return JSON.stringify(json) === text;
  } catch {
    return true; // deeper than calls can be: whoever reads it has a limit for that
  }
}

/** Whether this stands for a chunk. */
export function isRef(json: Json | undefined): boolean {
  return typeof json === 'object' && json !== null && !Array.isArray(json) && json.$ === 0 && firstKey(json) === '$';
}

/** The next ref of the chunk. */
export function takeRef(cursor: Cursor): Digest {
  const digest = cursor.refs[cursor.next++];
  if (digest === undefined) throw new CorruptError('A chunk uses more references than it has.');
  return digest;
}

/** Throws unless the text has used all refs of its chunk. */
export function checkUsed({ refs, next }: Cursor): void {
  if (next !== refs.length) throw new CorruptError('A chunk has references that its text does not use.');
}

/** The first key of an object; tagged values have `$` there. */
export function firstKey(json: object): string | undefined {
  for (const key in json) return key;
  return undefined;
}

/** What stands behind the `$` of an object that begins with it; nothing else may. */
export function taggedIn(json: JsonObject): Json | undefined {
  let keys = 0;
  for (const _ in json) keys++;
  if (keys > 1) throw new CorruptError('A tagged value has more than its tag.');
  return json.$;
}

/** Throws if a collection has fewer entries than were written: then a key came twice. */
export function checkEntries(found: number, written: number): void {
  if (found !== written) throw new CorruptError('A collection has the same key or element twice.');
}

/** The tag of a tagged value and what follows it. */
export function readTag(tagged: Json | undefined): [string, ...Json[]] {
  if (!Array.isArray(tagged) || typeof tagged[0] !== 'string') throw new CorruptError('A tagged value has no tag.');
  return tagged as [string, ...Json[]];
}

/** The levels of a tree, highest first, as counts of elements, and the open elements. */
export type TreeRows = {
  readonly kind: string;
  readonly count: number;
  readonly rows: number[][];
  readonly items: Json[];
};

/** Reads what follows the tag of a tree. */
export function readTree([kind, count, edges]: readonly Json[]): TreeRows {
  const rows = Array.isArray(edges) ? edges : [];
  const items = rows.at(-1);
  const above = rows.slice(0, -1);
  const isSound = typeof kind === 'string' && isCount(count) && Array.isArray(items) && above.every(isCounts);
  if (!isSound || above.length > MAX_TREE_HEIGHT) throw new CorruptError('A tree is not written as trees are.');
  return { kind, count, rows: above as number[][], items };
}

/** The counts in a node above the leaves: one for each node below it. */
export function readCounts({ text, refs }: ChunkContent): number[] {
  const counts = parseChunkText(text);
  if (isCounts(counts) && counts.length === refs.length) return counts;
  throw new CorruptError('A node of a tree does not hold counts.');
}

function isCounts(json: unknown): json is number[] {
  return Array.isArray(json) && json.every(isCount);
}

function isCount(json: unknown): json is number {
  return Number.isSafeInteger(json) && (json as number) >= 0;
}

/** An object that is no list. */
export function asFields(json: Json | undefined): JsonObject {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json;
  throw new CorruptError('A tagged object lacks its fields.');
}

/** The elements of a list. */
export function asList<Item = Json>(json: unknown): Item[] {
  if (Array.isArray(json)) return json as Item[];
  throw new CorruptError('A tagged value lacks its list.');
}

/** Keys and values in pairs. */
export function asFieldPairs(json: Json | undefined): [string, Json][] {
  const pairs = asList(json);
  if (pairs.every((pair) => Array.isArray(pair) && pair.length === 2 && typeof pair[0] === 'string'))
    return pairs as [string, Json][];
  throw new CorruptError('A tagged object has fields that are not pairs of a name and a value.');
}
