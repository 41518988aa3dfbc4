import { isDeepStrictEqual } from 'node:util';

/** Deep equality that also compares the order of keys, prototypes, `-0`, and errors. */
export function isSameValue(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(a, b) && keyOrder(a) === keyOrder(b);
}

function keyOrder(value: unknown): string {
  if (typeof value !== 'object' || value === null) return '';
  if (value instanceof Map) return `M${[...value].map(([k, v]) => keyOrder(k) + keyOrder(v)).join(';')}`;
  if (value instanceof Set) return `S${[...value].map(keyOrder).join(';')}`;
  if (ArrayBuffer.isView(value)) return '';
  return `{${Object.keys(value)
    .map((key) => `${JSON.stringify(key)}:${keyOrder((value as Record<string, unknown>)[key])}`)
    .join(',')}}`;
}
