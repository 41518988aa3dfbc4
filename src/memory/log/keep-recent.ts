/** Puts something into a map of what was used last, and drops what was used longest ago once there are too many. */
export function keepRecent<Key, Value>(map: Map<Key, Value>, [key, value]: readonly [Key, Value], max: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}
