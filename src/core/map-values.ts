/** The same keys, each with what is made of its value. */
export function mapValues<From, To>(
  values: Readonly<Record<string, From>>,
  make: (value: From, key: string) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, make(value, key)]));
}
