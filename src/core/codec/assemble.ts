import { CorruptError } from '../errors.ts';
import { checkEntries } from '../tree/chunk-text.ts';
import { decodeBase64, decodeBytes } from '../value/atom.ts';
import { setField } from '../value/odd-key.ts';

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

/** Throws if more is written after a tag than belongs to it. */
export function checkLength(tag: string, args: readonly unknown[]): void {
  if (args.length > (LENGTHS[tag] ?? args.length))
    throw new CorruptError(`A value tagged ${JSON.stringify(tag)} is written with more than it has.`);
}

/** The same again: two objects of the same content are two elements of a set. */
export function anew<Value>(value: Value): Value {
  return typeof value === 'object' && value !== null ? new Proxy(value, {}) : value;
}

/** A key and its value. */
export function asPair(value: unknown): [unknown, unknown] {
  if (Array.isArray(value) && value.length === 2) return value as [unknown, unknown];
  throw new CorruptError('A collection of pairs holds something else.');
}

/** A piece, or the name of a field. */
export function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new CorruptError('A long text or a list of bytes is not made of texts.');
}

/** A map of these; throws if a key comes twice. */
export function createMap(entries: readonly [unknown, unknown][]): Map<unknown, unknown> {
  const map = new Map(entries);
  checkEntries(map.size, entries.length);
  return map;
}

/** A set of these; throws if one comes twice. */
export function createSet(items: readonly unknown[]): Set<unknown> {
  const set = new Set(items);
  checkEntries(set.size, items.length);
  return set;
}

/** Makes a value of the elements of its tree. */
export function assemble(kind: string, items: unknown[]): string | object {
  switch (kind) {
    case 'Array':
      return items;
    case 'Set':
      return createSet(items);
    case 'Map':
      return createMap(items.map(asPair));
    case 'object':
    case 'bare': {
      const target = kind === 'object' ? {} : Object.create(null);
      for (const [key, value] of items.map(asPair)) setField(target, asText(key), value);
      checkEntries(Object.keys(target).length, items.length);
      return target;
    }
    case 'text':
      return items.map(asText).join('');
    default:
      return decodeBytes(kind, Buffer.concat(items.map(decodeBase64)));
  }
}
