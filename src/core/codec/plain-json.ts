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
      return value === null ? null : copyContainer(value as Fields, depth + 1);
    default:
      return undefined;
  }
}

type Fields = { readonly [key: string]: unknown };

function copyContainer(value: Fields, depth: number): JsonValue | undefined {
  const keys = Object.keys(value);
  const copy = emptyCopy(value, keys);
  if (copy === undefined || depth > MAX_DEPTH) return undefined;
  for (const key of keys) {
    const part = copyPlainJson(value[key], depth);
    if (part === undefined || key === '__proto__') return undefined;
    copy[key] = part;
  }
  return copy;
}

/** An empty array or object; undefined for what JSON holds as neither. */
function emptyCopy(value: object, keys: readonly string[]): { [key: string]: JsonValue } | undefined {
  if (Object.getOwnPropertySymbols(value).length > 0) return undefined;
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === Array.prototype)
    return keys.length === (value as unknown[]).length ? ([] as unknown as { [key: string]: JsonValue }) : undefined;
  return prototype === Object.prototype && keys[0] !== '$' && !hasOddKey(keys) ? {} : undefined;
}
