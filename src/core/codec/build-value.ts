import { setField } from '../defined.ts';
import { CorruptError } from '../errors.ts';
import { decodeBase64, decodeBytes } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { createError } from '../value/error-value.ts';
import { checkEntries } from '../value/grammar.ts';
import type { Content } from './parts.ts';

/** Makes an object, a collection, an error or an instance of what is in it: values and keys as in a shadow of that kind. */
export function buildValue({ kind, keys, values }: Content, codecs: ClassCodecs): string | object {
  switch (kind) {
    case 'Array':
      return values;
    case 'object':
    case 'bare': {
      const target = kind === 'object' ? {} : Object.create(null);
      for (let at = 0; at < keys.length; at++) setField(target, keys[at] as string, values[at]);
      return target;
    }
    case 'Map':
      return createMap(values);
    case 'Set': {
      const set = new Set(values);
      checkEntries(set.size, values.length);
      return set;
    }
    case 'Error':
      return createError(keys[0] as string, values[0] as { [key: string]: unknown });
    case 'class':
      return codecs.decode(keys[0] as string, values[0]);
    default:
      return joinPieces(kind, values);
  }
}

function createMap(values: readonly unknown[]): Map<unknown, unknown> {
  const map = new Map<unknown, unknown>();
  for (let at = 0; at < values.length; at += 2) map.set(values[at], values[at + 1]);
  checkEntries(map.size, values.length / 2);
  return map;
}

/** A long text, or bytes, which are written as the base64 of each piece. */
function joinPieces(kind: string, pieces: readonly unknown[]): string | object {
  const texts = pieces.map(asText);
  return kind === 'text' ? texts.join('') : decodeBytes(kind, Buffer.concat(texts.map(decodeBase64)));
}

/** A piece, or the name of a field. */
export function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new CorruptError('A long text or a list of bytes is not made of texts.');
}
