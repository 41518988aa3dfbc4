/** Characters that JSON writes with a backslash (and a few more, which does no harm). */
const ESCAPED = /["\\]|\p{Cc}|\p{Cs}/u;

/**
 * Whether an object has a key that JSON would write with an escape. Such objects are written as pairs: V8 13.6 (Node 24) may read an
 * escaped name as another one, depending on the objects it parsed before; escapes in values it reads right.
 */
export function hasOddKey(keys: readonly string[]): boolean {
  return keys.some((key) => ESCAPED.test(key));
}

/** Sets any key as plain data; assigning `__proto__` would change the prototype instead. */
export function setField(target: object, key: string, value: unknown): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  else (target as Record<string, unknown>)[key] = value;
}
