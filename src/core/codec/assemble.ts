import { setField } from '../defined.ts';
import { CorruptError } from '../errors.ts';
import { decodeBase64, decodeBytes } from '../value/atom.ts';
import { asPair, checkEntries } from '../value/grammar.ts';

/** What is wrong with a piece that is none. */
export const NO_TEXTS = 'A long text or a list of bytes is not made of texts.';

/** A piece, or the name of a field. */
export function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new CorruptError(NO_TEXTS);
}

/** Makes a map; each key is there once. */
export function createMap(entries: readonly [unknown, unknown][]): Map<unknown, unknown> {
  const map = new Map(entries);
  checkEntries(map.size, entries.length);
  return map;
}

/** Makes a set; each element is there once. */
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
