import { hasOddKey } from '../value/grammar.ts';
import type { JsonValue } from '../value/json.ts';

/** Deeper values are left to the full walk, which knows cycles. */
const MAX_DEPTH = 8;

/** What stands for a value that JSON cannot hold as it is. */
const NOT_PLAIN = Symbol('not plain');

/** A copy of a value that is JSON as it is; undefined for any other, and for what the stored form would write with a tag. */
export function copyPlainJson(value: unknown): JsonValue | undefined {
  const copy = copyValue(value, 0);
  return copy === NOT_PLAIN ? undefined : copy;
}

function copyValue(value: unknown, depth: number): JsonValue | typeof NOT_PLAIN {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? value : NOT_PLAIN;
    case 'object':
      return value === null ? null : copyContainer(value, depth + 1);
    default:
      return NOT_PLAIN;
  }
}

function copyContainer(value: object, depth: number): JsonValue | typeof NOT_PLAIN {
  if (depth > MAX_DEPTH) return NOT_PLAIN;
  const prototype: object | null = Object.getPrototypeOf(value);
  const keys = Object.keys(value);
  if (Object.getOwnPropertySymbols(value).length > 0) return NOT_PLAIN;
  if (prototype === Array.prototype) return copyArray(value as unknown[], keys, depth);
  const isPlain = prototype === Object.prototype && keys[0] !== '$';
  return isPlain && !hasOddKey(keys) ? copyObject(value as { [key: string]: unknown }, keys, depth) : NOT_PLAIN;
}

function copyArray(items: readonly unknown[], keys: readonly string[], depth: number): JsonValue | typeof NOT_PLAIN {
  if (keys.length !== items.length) return NOT_PLAIN;
  const copies: JsonValue[] = [];
  for (const item of items) {
    const copy = copyValue(item, depth);
    if (copy === NOT_PLAIN) return NOT_PLAIN;
    copies.push(copy);
  }
  return copies;
}

function copyObject(
  fields: { readonly [key: string]: unknown },
  keys: readonly string[],
  depth: number,
): JsonValue | typeof NOT_PLAIN {
  const copies: { [key: string]: JsonValue } = {};
  for (const key of keys) {
    const copy = copyValue(fields[key], depth);
    if (copy === NOT_PLAIN || key === '__proto__') return NOT_PLAIN;
    copies[key] = copy;
  }
  return copies;
}
