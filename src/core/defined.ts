/** Fields that may be undefined, as fields that may be absent. */
export type Defined<Value> = {
  [Key in keyof Value as undefined extends Value[Key] ? never : Key]: Value[Key];
} & { [Key in keyof Value as undefined extends Value[Key] ? Key : never]?: Exclude<Value[Key], undefined> };

/** The same object without the fields that are undefined. */
export function withoutUndefined<Value extends object>(value: Value): Defined<Value> {
  const fields = value as Record<string, unknown>;
  const defined: Record<string, unknown> = {};
  // Key by key: an object made from entries is slow wherever it goes.
  for (const key of Object.keys(fields)) if (fields[key] !== undefined) setField(defined, key, fields[key]);
  return defined as Defined<Value>;
}

/** Sets any key as plain data; assigning `__proto__` would change the prototype instead. */
export function setField(target: object, key: string, value: unknown): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  else (target as Record<string, unknown>)[key] = value;
}
