/** Puts an entry at the end of a map that holds no more than so many; the one that was put there longest ago is forgotten. */
export function remember<Value>(map: Map<string, Value>, [key, value]: readonly [string, Value], max: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > max) map.delete(map.keys().next().value ?? '');
}
