import { isDeepStrictEqual, types } from 'node:util';
import { describeValue } from '../options.ts';
import { atomTag } from './atom.ts';
import { BUILT_IN } from './error-value.ts';
import { SecretRef } from './secret-ref.ts';

/** What an object that is not genuine is, as an error says it. */
const PRETENDED = 'an object with the prototype of something that it is not';

/** What about an object cannot be saved, and what to do; undefined if nothing. */
export function findImpossible(value: object, prototype: object | null): [found: string, help: string] | undefined {
  const [symbol] = Object.getOwnPropertySymbols(value);
  if (symbol !== undefined)
    return [
      `an object with a symbol as key, ${String(symbol)}`,
      'Use strings as keys; an agent whose base class adds symbols needs saveState and loadState',
    ];
  return isGenuine(value, prototype) ? undefined : [PRETENDED, 'Save a real one, or plain data'];
}

/**
 * Whether an object is what its prototype says, and was not only given that prototype: else it would come back as something else.
 * Without a prototype of its own (null) it must be none of the built-in kinds.
 */
function isGenuine(value: object, prototype: object | null): boolean {
  if (prototype === null) return !isBuiltIn(value);
  const tag = atomTag(prototype);
  if (tag !== undefined) return isAtom(tag, value);
  return types.isNativeError(value) || !ERROR_PROTOTYPES.has(prototype);
}

/** Errors of other classes may be made in any way. */
const ERROR_PROTOTYPES: ReadonlySet<object> = new Set(Object.values(BUILT_IN).map(({ prototype }) => prototype));

function isAtom(tag: string, value: object): boolean {
  const isOne = ATOMS.get(tag);
  return isOne?.(value) ?? (types.isTypedArray(value) && value[Symbol.toStringTag] === tag);
}

const ATOMS = new Map<string, (value: object) => boolean>([
  ['Date', types.isDate],
  ['URL', () => true], // reading it fails otherwise
  ['RegExp', types.isRegExp],
  ['ArrayBuffer', types.isArrayBuffer],
  ['DataView', types.isDataView],
  ['Buffer', types.isUint8Array],
  ['secret', (value) => 'name' in value && typeof value.name === 'string'],
]);

function isBuiltIn(value: object): boolean {
  return Array.isArray(value) || types.isNativeError(value) || BUILT_IN_KINDS.some((isOne) => isOne(value));
}

const BUILT_IN_KINDS = [
  types.isMap,
  types.isSet,
  types.isDate,
  types.isRegExp,
  types.isArrayBufferView,
  types.isAnyArrayBuffer,
];

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
