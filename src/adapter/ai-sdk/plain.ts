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

function isAtom(value: object): boolean {
  return value instanceof Date || value instanceof URL || value instanceof ArrayBuffer || ArrayBuffer.isView(value);
}
