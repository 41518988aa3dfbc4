import { type ChunkContent, createChunk, type Digest } from '../tree/chunk.ts';
import { FIELD_CHARS, ITEM_CHARS, REF_TEXT } from '../value/format.ts';
import { hasOddKey, setField } from '../value/odd-key.ts';
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
  if (Array.isArray(value)) return writeList(value, refs);
  if (value instanceof Ref) return writeRef(value.digest, refs);
  if (value instanceof Opaque) return `{"$":${writeList([value.tag, ...value.args], refs)}}`;
  if (value instanceof Pairs) return `{"$":["Map",${writeList(value.pairs as Linked[][], refs)}]}`;
  if (value instanceof Tree) return writeTree(value, refs);
  return writeFields(value, refs);
}

function writeList(values: readonly Linked[], refs: Digest[]): string {
  return `[${values.map((value) => write(value, refs)).join(',')}]`;
}

function writeRef(digest: Digest, refs: Digest[]): string {
  refs.push(digest);
  return REF_TEXT;
}

function writeTree({ kind, count, levels, items }: Tree, refs: Digest[]): string {
  let rows = '';
  for (const nodes of levels) {
    rows += `[${nodes.map((node) => node.items).join(',')}],`;
    for (const { digest } of nodes) refs.push(digest);
  }
  return `{"$":["tree",${JSON.stringify(kind)},${count},[${rows}${writeList(items, refs)}]]}`;
}

function writeFields(fields: LinkedObject, refs: Digest[]): string {
  const keys = Object.keys(fields);
  const isBare = Object.getPrototypeOf(fields) === null;
  if (hasOddKey(keys)) {
    const pairs = keys.map((key) => `[${JSON.stringify(key)},${write(fields[key] as Linked, refs)}]`);
    return `{"$":["${isBare ? 'bareFields' : 'fields'}",[${pairs.join(',')}]]}`;
  }
  const parts = keys.map((key) => `${JSON.stringify(key)}:${write(fields[key] as Linked, refs)}`);
  const text = `{${parts.join(',')}}`;
  if (isBare) return `{"$":["bare",${text}]}`;
  return keys[0] === '$' ? `{"$":["object",${text}]}` : text;
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
