import { InvalidInputError } from '../../core/errors.ts';

/** Accepts the value of a field or throws an `InvalidInputError` that says what was found and what is allowed. */
export type FieldCheck = (value: unknown, field: string) => void;

/** The fields that there are, and what each accepts. */
export type FieldChecks = Readonly<Record<string, FieldCheck>>;

/** The longest delay a timer takes; Node lets a longer one fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

/** Checks every field of an object. A field that came out undefined means the same as one that was left out. */
export function checkFields(value: unknown, name: string, checks: FieldChecks): void {
  for (const [key, part] of Object.entries(openFields(value, name))) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
    if (check === undefined) throw refuse(`${name} has the unknown key ${JSON.stringify(key)}`, Object.keys(checks));
    if (part !== undefined) check(part, `${name}.${key}`);
  }
}

/** A copy without the fields that are undefined, which would hide their defaults. */
export function givenFields<Fields extends object>(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Fields;
}

/** What was found and what is allowed, as an error. */
export function refuse(found: string, allowed: readonly string[]): InvalidInputError {
  return new InvalidInputError(`${found}; allowed: ${allowed.join(', ')}.`, { details: { found, allowed } });
}

function openFields(value: unknown, name: string): object {
  if (isObject(value) && !Array.isArray(value)) return value;
  throw refuse(`${name} is ${describeValue(value)}`, ['an object']);
}

/** Whether a value can have fields. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** A value in a few words. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'function') return 'a function';
  return isObject(value) ? 'an object' : String(value);
}

/** Accepts true and false. */
export function checkFlag(value: unknown, field: string): void {
  if (typeof value !== 'boolean') throw refuse(`${field} is ${describeValue(value)}`, ['true', 'false']);
}

/** Accepts a function. */
export function checkFunction(value: unknown, field: string): void {
  if (typeof value !== 'function') throw refuse(`${field} is ${describeValue(value)}`, ['a function']);
}

/** Accepts a text that programs can be given: not empty, and without NUL. */
export function checkText(value: unknown, field: string): void {
  if (typeof value !== 'string' || value === '' || value.includes('\0'))
    throw refuse(`${field} is ${describeValue(value)}`, ['a text that is not empty, without NUL']);
}

/** Accepts a list whose items all pass. */
export function listOf(check: FieldCheck): FieldCheck {
  return (value, field) => {
    if (!Array.isArray(value)) throw refuse(`${field} is ${describeValue(value)}`, ['a list']);
    for (const [at, item] of value.entries()) check(item, `${field}[${at}]`);
  };
}

/** Accepts one of these words. */
export function oneOf(...words: readonly string[]): FieldCheck {
  return (value, field) => {
    if (!words.includes(value as string)) throw refuse(`${field} is ${describeValue(value)}`, words);
  };
}

/** Accepts a whole number, by default up to the longest delay a timer takes. */
export function wholeFrom(min: number, max: number = MAX_DELAY_MS): FieldCheck {
  return (value, field) => {
    if (!Number.isSafeInteger(value) || Number(value) < min || Number(value) > max)
      throw refuse(`${field} is ${describeValue(value)}`, [`a whole number from ${min} to ${max}`]);
  };
}
