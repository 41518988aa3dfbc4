/** Puts something into a map of what was used last, drops what was used longest ago once there are too many, and returns whether it is new there. */
export function keepRecent<Key, Value>(
  map: Map<Key, Value>,
  [key, value]: readonly [Key, Value],
  max: number,
): boolean {
  const isNew = !map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= max) break;
    map.delete(oldest);
  }
  return isNew;
}
