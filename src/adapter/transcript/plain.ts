import { isPlainObject } from '../../core/options.ts';

const ATOMS = [Date, URL, ArrayBuffer, Map, Set];

/** What is nested deeper, or holds itself, is left as it is: whoever stores it refuses it, and says where it is. */
const MAX_DEPTH = 1_000;

/** A copy of what the SDK hands over, without what cannot be saved: functions and absent fields; instances become what JSON makes of them. */
export function toPlain<Value>(value: Value): Value {
  return copy(value, true, []) as Value;
}

/** A copy without absent fields. What cannot be saved stays, and is refused where it is stored. */
export function withoutAbsent<Value>(value: Value): Value {
  return copy(value, false, []) as Value;
}

function copy(value: unknown, isPlain: boolean, above: readonly object[]): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (isEndless(value, above) || (isPlain ? isAtom(value) : isInstance(value))) return value;
  const inside = (child: unknown) => copy(child, isPlain, [...above, value]);
  if (Array.isArray(value)) return value.map(inside);
  if (isPlain && 'toJSON' in value && typeof value.toJSON === 'function') return inside(value.toJSON());
  const isKept = (child: unknown) => child !== undefined && !(isPlain && typeof child === 'function');
  const kept = Object.entries(value).filter(([, child]) => isKept(child));
  return Object.fromEntries(kept.map(([field, child]) => [field, inside(child)]));
}

function isEndless(value: object, above: readonly object[]): boolean {
  return above.length > MAX_DEPTH || above.includes(value);
}

function isInstance(value: object): boolean {
  return !Array.isArray(value) && !isPlainObject(value);
}

function isAtom(value: object): boolean {
  return ATOMS.some((kind) => value instanceof kind) || ArrayBuffer.isView(value);
}
