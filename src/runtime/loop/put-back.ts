type Container = { [key: string]: unknown };

/** Makes a value what it was, in place: whoever holds a part of it goes on holding a part of it. */
export function putBack(target: object, before: object): void {
  const now = target as Container;
  if (Array.isArray(target) && Array.isArray(before)) target.length = before.length;
  for (const key of Object.keys(now)) if (!Object.hasOwn(before, key)) delete now[key];
  for (const [key, value] of Object.entries(before)) {
    if (areAlike(now[key], value)) putBack(now[key], value);
    else if (now[key] !== value) now[key] = value;
  }
}

/** Whether both are objects, or both are lists; a value of another class is put back as a whole. */
function areAlike(held: unknown, value: unknown): held is object {
  return isContainer(held) && isContainer(value) && Array.isArray(held) === Array.isArray(value);
}

function isContainer(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null;
}
