import { isRecord } from '../../core/options.ts';

const ATOMS = [Date, URL, ArrayBuffer, Map, Set];

/** A copy of what the SDK hands over, without what cannot be saved: functions and absent fields; instances become what JSON makes of them. */
export function toPlain<Value>(value: Value): Value {
  return copy(value) as Value;
}

function copy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || isAtom(value)) return value;
  if (Array.isArray(value)) return value.map(copy);
  if ('toJSON' in value && typeof value.toJSON === 'function') return copy(value.toJSON());
  const kept = Object.entries(value).filter(([, child]) => child !== undefined && typeof child !== 'function');
  return Object.fromEntries(kept.map(([field, child]) => [field, copy(child)]));
}

/** A copy without absent fields. What cannot be saved stays, and is refused where it is stored. */
export function withoutAbsent(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutAbsent);
  if (!isRecord(value) || isInstance(value)) return value;
  const kept = Object.entries(value).filter(([, child]) => child !== undefined);
  return Object.fromEntries(kept.map(([field, child]) => [field, withoutAbsent(child)]));
}

function isInstance(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype !== Object.prototype && prototype !== null;
}

function isAtom(value: object): boolean {
  return ATOMS.some((kind) => value instanceof kind) || ArrayBuffer.isView(value);
}
