/**
 * How values are written in chunks: JSON, in which `{"$":[tag, ...]}` stands for what JSON cannot hold and `{"$":0}` for the next of the
 * chunk's refs. Tags are written and read here and nowhere else. docs/FORMAT.md lists them.
 */

import { CorruptError } from '../errors.ts';

/** What the text of a chunk holds, tags not yet read. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** What stands in a chunk's text for the next of its refs. */
export const REF_TEXT = '{"$":0}';

/** How every tagged value begins; cannot occur in the JSON of plain data, because there a quote inside a text is escaped. */
export const TAG_START = '{"$":';

/** What follows a tag, at most. Atoms know it themselves. */
const LENGTHS: { readonly [tag: string]: number } = {
  tree: 3,
  object: 1,
  bare: 1,
  fields: 1,
  bareFields: 1,
  Map: 1,
  Set: 1,
  Error: 2,
  class: 2,
};

/** No tree of ours is higher: each node holds four of the level below, so that this is enough for 2^64 elements. */
const MAX_TREE_HEIGHT = 32;

/** Characters that JSON writes with a backslash (and a few more, which does no harm). */
const ESCAPED = /["\\]|\p{Cc}|\p{Cs}/u;

/** Writes a tagged value; what follows the tag is JSON already. */
export function writeTag(tag: string, ...parts: readonly string[]): string {
  return `{"$":["${tag}"${parts.map((part) => `,${part}`).join('')}]}`;
}

/** Writes a tree: of each level, highest first, how many elements its open nodes hold, and last the open elements; joined already. */
export function writeTree(kind: string, count: number, rows: readonly string[]): string {
  return writeTag('tree', `"${kind}"`, String(count), `[[${rows.join('],[')}]]`);
}

/** The keys of an object as they are written, each with what belongs before and behind it: its value comes next. */
export function fieldLeads(keys: readonly string[]): string[] {
  const [first, next, end] = hasOddKey(keys) ? ['[', '],[', ','] : ['', ',', ':'];
  return keys.map((key, at) => `${at === 0 ? first : next}${keyText(key).text}${end}`);
}

/** The text of an object, given those of its fields with their leads. */
export function wrapFields(text: string, keys: readonly string[], isBare: boolean): string {
  if (hasOddKey(keys)) return writeTag(isBare ? 'bareFields' : 'fields', `[${text}]]`);
  if (isBare) return writeTag('bare', `{${text}}`);
  return keys[0] === '$' ? writeTag('object', `{${text}}`) : `{${text}}`;
}

type KeyText = { readonly text: string; readonly isOdd: boolean };

/** Nearly all keys come again and again. Those of large objects may not; what is remembered then is thrown away. */
const keyTexts = new Map<string, KeyText>();
const MAX_KEY_TEXTS = 1000;
const MAX_KEPT_KEY_CHARS = 64;

function keyText(key: string): KeyText {
  const known = keyTexts.get(key);
  if (known !== undefined) return known;
  const made = { text: JSON.stringify(key), isOdd: ESCAPED.test(key) };
  if (keyTexts.size >= MAX_KEY_TEXTS) keyTexts.clear();
  if (key.length <= MAX_KEPT_KEY_CHARS) keyTexts.set(key, made);
  return made;
}

/**
 * Whether an object has a key that JSON would write with an escape. Such objects are written as pairs: V8 13.6 (Node 24) may read an
 * escaped name as another one, depending on the objects it parsed before; escapes in values it reads right.
 */
export function hasOddKey(keys: readonly string[]): boolean {
  for (const key of keys) if (keyText(key).isOdd) return true;
  return false;
}

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

/** The refs of the chunk being read; taken in reading order. */
export type Cursor<Ref> = { readonly refs: readonly Ref[]; next: number };

/** The next ref of the chunk. */
export function takeRef<Ref>(cursor: Cursor<Ref>): Ref {
  const ref = cursor.refs[cursor.next++];
  if (ref === undefined) throw new CorruptError('A chunk uses more references than it has.');
  return ref;
}

/** Throws unless the text has used all refs of its chunk. */
export function checkUsed({ refs, next }: Cursor<unknown>): void {
  if (next !== refs.length) throw new CorruptError('A chunk has references that its text does not use.');
}

/** Whether an object is a tagged value: one that begins with `$`. */
export function isTagged(json: JsonObject): boolean {
  for (const key in json) return key === '$';
  return false;
}

/** Whether this stands for a chunk. */
export function isRef(json: Json): boolean {
  return typeof json === 'object' && json !== null && !Array.isArray(json) && json.$ === 0 && isTagged(json);
}

/** The tag of a tagged value and what follows it; 0 if it stands for the next ref. */
export function readTag(json: JsonObject): 0 | readonly [string, ...Json[]] {
  let keys = 0;
  for (const _ in json) keys++;
  if (keys > 1) throw new CorruptError('A tagged value has more than its tag.');
  const tagged = json.$;
  if (tagged === 0) return 0;
  if (!Array.isArray(tagged) || typeof tagged[0] !== 'string') throw new CorruptError('A tagged value has no tag.');
  const [tag] = tagged;
  if (tagged.length - 1 > (LENGTHS[tag] ?? tagged.length))
    throw new CorruptError(`A value tagged ${JSON.stringify(tag)} is written with more than it has.`);
  return tagged as [string, ...Json[]];
}

/** The fields of an object that is written with a tag, and whether it has a prototype. */
type TaggedFields = { readonly kind: 'object' | 'bare'; readonly fields: [string, Json][] };

/** Reads what follows the tag of an object; undefined if the tag is another. */
export function readFields(tag: string, json: Json | undefined): TaggedFields | undefined {
  switch (tag) {
    case 'object':
    case 'bare':
      return { kind: tag, fields: Object.entries(asFields(json)) };
    case 'fields':
    case 'bareFields':
      return { kind: tag === 'fields' ? 'object' : 'bare', fields: asFieldPairs(json) };
    default:
      return undefined;
  }
}

function asFields(json: Json | undefined): JsonObject {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json;
  throw new CorruptError('A tagged object lacks its fields.');
}

function asFieldPairs(json: Json | undefined): [string, Json][] {
  const pairs = asList(json);
  if (pairs.every((pair) => Array.isArray(pair) && pair.length === 2 && typeof pair[0] === 'string'))
    return pairs as [string, Json][];
  throw new CorruptError('A tagged object has fields that are not pairs of a name and a value.');
}

/** The elements of a list. */
export function asList<Item = Json>(json: unknown): Item[] {
  if (Array.isArray(json)) return json as Item[];
  throw new CorruptError('A tagged value lacks its list.');
}

/** A key and its value. */
export function asPair(value: unknown): [unknown, unknown] {
  if (Array.isArray(value) && value.length === 2) return value as [unknown, unknown];
  throw new CorruptError('A collection of pairs holds something else.');
}

/** Throws if a collection has fewer entries than were written: then a key came twice. */
export function checkEntries(found: number, written: number): void {
  if (found !== written) throw new CorruptError('A collection has the same key or element twice.');
}

/** The levels of a tree, highest first, as counts of elements, and the open elements. */
type TreeRows = {
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
export function readCounts({ text, refs }: { readonly text: string; readonly refs: readonly unknown[] }): number[] {
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
