import { isDeepStrictEqual, types } from 'node:util';
import { describeValue } from '../options.ts';
import { isGenuine, PRETENDED } from './genuine.ts';
import { SecretRef } from './secret-ref.ts';

/**
 * Says in words what the stored form of an array, a map, a set, a date, bytes or another value of the closed set has no place
 * for: a property that somebody put on it. Undefined if there is none. Properties that are not enumerable do not count.
 */
export function describeStray(value: object): string | undefined {
  if (!isGenuine(value, Object.getPrototypeOf(value))) return PRETENDED;
  if (value instanceof SecretRef) return undefined; // its name is a property
  if (types.isRegExp(value) && !isPlainIndex(value.lastIndex))
    return `a regular expression whose lastIndex is ${Object.is(value.lastIndex, -0) ? '-0' : describeValue(value.lastIndex)}`;
  if ('resizable' in value && value.resizable === true) return 'a resizable ArrayBuffer';
  const key = findStrayKey(value);
  if (key === undefined) return undefined;
  const name = typeof key === 'symbol' ? String(key) : JSON.stringify(key);
  return `a value of type ${value.constructor.name} with the extra property ${name}`;
}

/** Whether this can be written as a number. */
function isPlainIndex(index: unknown): boolean {
  return Number.isFinite(index) && !Object.is(index, -0);
}

function findStrayKey(value: object): string | symbol | undefined {
  const [symbol] = Object.getOwnPropertySymbols(value);
  if (symbol !== undefined) return symbol;
  if (Array.isArray(value)) return Object.keys(value)[value.length];
  // Listing the keys of bytes makes a string for each of them; comparing them with a view of themselves makes none.
  if (types.isTypedArray(value) && isDeepStrictEqual(value, value.subarray())) return undefined;
  return Object.keys(value).at(-1);
}
