import { isObject } from '../options.ts';

/** A value and everything in it, also the keys of maps; with `seen` each object once. Bytes are one value; no nesting is too deep. */
export function* eachPart(value: unknown, seen?: Set<unknown>): Generator<unknown> {
  const open = [value];
  while (open.length > 0) {
    const part = open.pop();
    yield part;
    if (!isObject(part) || ArrayBuffer.isView(part) || seen?.has(part)) continue;
    seen?.add(part);
    for (const inner of partsOf(part)) open.push(inner);
  }
}

function partsOf(value: object): Iterable<unknown> {
  if (value instanceof Map) return [...value.keys(), ...value.values()];
  return value instanceof Set ? value : Object.values(value);
}
