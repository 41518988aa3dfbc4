/** Freezes plain objects and arrays all the way down; stops at what is frozen already, and leaves other objects alone. */
export function freezeState(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== Array.prototype && prototype !== null) return;
  for (const child of Object.values(value)) freezeState(child);
  Object.freeze(value);
}
