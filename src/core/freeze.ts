/** Freezes plain objects and arrays all the way down; stops at what is frozen already, and leaves other objects alone. */
export function freezeState<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== Array.prototype && prototype !== null) return value;
  for (const child of Object.values(value)) freezeState(child);
  return Object.freeze(value);
}
