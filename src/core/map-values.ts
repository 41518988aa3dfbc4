/** The same keys, each with what is made of its value. */
export function mapValues<Key extends string, From, To>(
  values: Readonly<Record<Key, From>>,
  make: (value: From, key: Key) => To,
): Record<Key, To> {
  const entries = Object.entries(values) as [Key, From][];
  return Object.fromEntries(entries.map(([key, value]) => [key, make(value, key)])) as Record<Key, To>;
}
