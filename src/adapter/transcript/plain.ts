import { isRecord } from '../../core/options.ts';

const ATOMS = [Date, URL, ArrayBuffer, Map, Set];

/** What is nested deeper, or holds itself, is left as it is: whoever stores it refuses it, and says where it is. */
const MAX_DEPTH = 1_000;

/** A copy of what the SDK hands over, without what cannot be saved: functions and absent fields; instances become what JSON makes of them. */
export function toPlain<Value>(value: Value): Value {
  return copy(value, []) as Value;
}

function copy(value: unknown, above: readonly object[]): unknown {
  if (typeof value !== 'object' || value === null || isAtom(value) || isEndless(value, above)) return value;
  const inside = (child: unknown) => copy(child, [...above, value]);
  if (Array.isArray(value)) return value.map(inside);
  if ('toJSON' in value && typeof value.toJSON === 'function') return inside(value.toJSON());
  const kept = Object.entries(value).filter(([, child]) => child !== undefined && typeof child !== 'function');
  return Object.fromEntries(kept.map(([field, child]) => [field, inside(child)]));
}

/** A copy without absent fields. What cannot be saved stays, and is refused where it is stored. */
export function withoutAbsent(value: unknown, above: readonly object[] = []): unknown {
  if (!isRecord(value) && !Array.isArray(value)) return value;
  if (isEndless(value, above)) return value;
  const inside = (child: unknown) => withoutAbsent(child, [...above, value]);
  if (Array.isArray(value)) return value.map(inside);
  if (isInstance(value)) return value;
  const kept = Object.entries(value).filter(([, child]) => child !== undefined);
  return Object.fromEntries(kept.map(([field, child]) => [field, inside(child)]));
}

function isEndless(value: object, above: readonly object[]): boolean {
  return above.length > MAX_DEPTH || above.includes(value);
}

function isInstance(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype !== Object.prototype && prototype !== null;
}

function isAtom(value: object): boolean {
  return ATOMS.some((kind) => value instanceof kind) || ArrayBuffer.isView(value);
}
