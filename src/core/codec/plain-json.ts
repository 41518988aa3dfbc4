import { hasOddKey } from '../value/grammar.ts';
import type { JsonValue } from '../value/json.ts';

/** Deeper values are left to the full walk, which knows cycles. */
const MAX_DEPTH = 8;

/** A copy of a value that is JSON as it is; undefined for any other, and for what the stored form would write with a tag. */
export function copyPlainJson(value: unknown, depth = 0): JsonValue | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? value : undefined;
    case 'object':
      return value === null ? null : copyContainer(value, depth + 1);
    default:
      return undefined;
  }
}

type Fields = { readonly [key: string]: unknown };

function copyContainer(value: object, depth: number): JsonValue | undefined {
  if (depth > MAX_DEPTH || Object.getOwnPropertySymbols(value).length > 0) return undefined;
  const keys = Object.keys(value);
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === Array.prototype) return copyArray(value as unknown[], keys.length, depth);
  const isPlain = prototype === Object.prototype && keys[0] !== '$' && !hasOddKey(keys);
  return isPlain ? copyObject(value as Fields, keys, depth) : undefined;
}

function copyArray(items: readonly unknown[], keys: number, depth: number): JsonValue | undefined {
  const copies: JsonValue[] = [];
  for (const item of items) {
    const copy = copyPlainJson(item, depth);
    if (copy === undefined) return undefined;
    copies.push(copy);
  }
  return keys === items.length ? copies : undefined;
}

function copyObject(fields: Fields, keys: readonly string[], depth: number): JsonValue | undefined {
  const copies: { [key: string]: JsonValue } = {};
  for (const key of keys) {
    const copy = copyPlainJson(fields[key], depth);
    if (copy === undefined || key === '__proto__') return undefined;
    copies[key] = copy;
  }
  return copies;
}
