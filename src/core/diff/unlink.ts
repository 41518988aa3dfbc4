import { setField } from '../defined.ts';
import { type ChunkContent, createChunk, type Digest } from '../tree/chunk.ts';
import { FIELD_CHARS, ITEM_CHARS } from '../value/format.ts';
import { fieldLeads, REF_TEXT, wrapFields, writeTag, writeTree } from '../value/grammar.ts';
import { type Linked, type LinkedObject, Opaque, Pairs, Ref, Tree } from './linked.ts';

/** Turns a chunk into a value; the chunks below it are at hand. */
export type DecodeContent = (content: ChunkContent) => unknown;

/** Writes a value as the chunk it came from, or would be if it had one of its own. */
export function unlink(value: Linked): ChunkContent {
  const refs: Digest[] = [];
  return { text: write(value, refs), refs };
}

function write(value: Linked, refs: Digest[]): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${writeAll(value, refs).join(',')}]`;
  if (value instanceof Ref) {
    refs.push(value.digest);
    return REF_TEXT;
  }
  if (value instanceof Opaque) return writeTag(value.tag, ...writeAll(value.args, refs));
  if (value instanceof Pairs) return writeTag('Map', write(value.pairs as Linked[][], refs));
  return value instanceof Tree ? writeNodes(value, refs) : writeObject(value, refs);
}

function writeAll(values: readonly Linked[], refs: Digest[]): string[] {
  return values.map((value) => write(value, refs));
}

function writeNodes({ kind, count, levels, items }: Tree, refs: Digest[]): string {
  for (const { ref } of levels.flat()) refs.push(ref.digest);
  const rows = levels.map((nodes) => nodes.map((node) => node.items).join(','));
  return writeTree(kind, count, [...rows, writeAll(items, refs).join(',')]);
}

function writeObject(fields: LinkedObject, refs: Digest[]): string {
  const keys = Object.keys(fields);
  const leads = fieldLeads(keys);
  const parts = keys.map((key, at) => `${leads[at]}${write(fields[key] as Linked, refs)}`);
  return wrapFields(parts.join(''), keys, Object.getPrototypeOf(fields) === null);
}

/**
 * The name of an element: its digest if it is a chunk, or would be one in a tree, else its text. Equal elements have equal
 * names also when one collection is a tree and the other is flat. No JSON starts with `=`, so the two kinds never meet.
 */
export function identify(value: Linked): string {
  if (value instanceof Ref) return `=${value.digest}`;
  if (typeof value === 'string' && value.length <= FIELD_CHARS) return JSON.stringify(value);
  const content = unlink(value);
  return content.text.length <= ITEM_CHARS && content.refs.length === 0
    ? content.text
    : `=${createChunk(content).digest}`;
}

/** Builds a value that shares nothing with any other: a parsed chunk may stand behind several places of a state. */
export function toValue(value: Linked, decode: DecodeContent): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => toValue(item, decode));
  if (value instanceof Pairs) return new Map(value.pairs.map(([k, v]) => [toPart(k, decode), toPart(v, decode)]));
  if (value instanceof Ref || value instanceof Opaque || value instanceof Tree) return decode(unlink(value));
  return toFields(value, decode);
}

function toPart(value: Linked | undefined, decode: DecodeContent): unknown {
  return value === undefined ? undefined : toValue(value, decode);
}

function toFields(fields: LinkedObject, decode: DecodeContent): object {
  const target = Object.create(Object.getPrototypeOf(fields)) as { [key: string]: unknown };
  for (const key of Object.keys(fields)) {
    setField(target, key, toValue(fields[key] as Linked, decode));
  }
  return target;
}
