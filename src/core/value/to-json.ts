import { SecretRef } from './secret-ref.ts';

/** What is best written as the text it gives. A secret that was left out is written as it is in stored strings. */
const TEXT_CLASSES = [SecretRef, RegExp, Error, URL];

/** What JSON does not have, as text, list or object. */
export function toJson(item: unknown): unknown {
  if (typeof item === 'bigint' || (typeof item === 'number' && !Number.isFinite(item))) return String(item);
  if (TEXT_CLASSES.some((known) => item instanceof known)) return String(item);
  if (item instanceof Date) return item.toJSON();
  if (item instanceof Set) return [...item];
  if (!(item instanceof Map)) return item;
  return [...item.keys()].every((key) => typeof key === 'string') ? Object.fromEntries(item) : [...item];
}
