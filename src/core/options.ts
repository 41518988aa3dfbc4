import { InvalidInputError } from './errors.ts';
import { suggest } from './suggestion.ts';

/** Says what is wrong with a value, as the end of a sentence ("must be true or false; found 3"); undefined if nothing is. */
export type OptionCheck = (value: unknown) => string | undefined;

/** An option that has another name now. */
export type RenamedOption = { readonly renamedTo: string };

/** What each option of a call accepts; `OptionChecks<T>` lists every option of `T`. */
export type OptionChecks<Options extends object = Record<never, never>> = {
  readonly [Key in keyof Options]-?: OptionCheck;
} & Readonly<Record<string, OptionCheck | RenamedOption>>;

/** The longest delay a timer takes; Node lets a longer one fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

/** More of a string than this is not repeated in an error. */
const MAX_SHOWN_CHARS = 40;

/**
 * Accepts the options of a call, such as `session()`, or throws an `InvalidInputError` that names the option, what was
 * found and what is meant. An option that is undefined counts as left out. Its cost is one lookup per option given.
 */
export function checkOptions(options: unknown, checks: OptionChecks, of: string): void {
  if (!isRecord(options))
    throw new InvalidInputError(`The options of ${of} must be an object; found ${describeValue(options)}.`);
  for (const key of Object.keys(options)) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
    if (typeof check !== 'function') throw unknownOption(key, checks, of);
    const value = options[key];
    const problem = value === undefined ? undefined : check(value);
    if (problem !== undefined) throw badOption(`The option "${key}" of ${of}`, problem, key);
  }
}

/** Accepts one value, such as an argument or an option that must be given, or throws an `InvalidInputError`. */
export function checkValue(value: unknown, check: OptionCheck, name: string): void {
  const problem = check(value);
  if (problem !== undefined) throw badOption(name, problem, name);
}

/** A copy without the options that are undefined, which would hide their defaults. */
export function givenOptions<Options extends object>(options: Options): Options {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Options;
}

function unknownOption(key: string, checks: OptionChecks, of: string): InvalidInputError {
  const renamed = Object.hasOwn(checks, key) ? checks[key] : undefined;
  if (typeof renamed === 'object')
    return new InvalidInputError(`The option "${key}" of ${of} is now called "${renamed.renamedTo}".`, {
      details: { option: key, suggestion: renamed.renamedTo },
    });
  return unknownKey(key, { known: Object.keys(checks).filter((name) => typeof checks[name] === 'function'), of });
}

/** The error for a key that is none of the known ones. */
export function unknownKey(
  key: string,
  { known, of, kind = 'an option' }: { readonly known: readonly string[]; readonly of: string; readonly kind?: string },
): InvalidInputError {
  const suggestion = suggest(key, known);
  const help = suggestion === undefined ? `known: ${known.join(', ')}.` : `did you mean "${suggestion}"?`;
  return new InvalidInputError(`${describeValue(key)} is not ${kind} of ${of}; ${help}`, {
    details: { option: key, known, ...(suggestion !== undefined && { suggestion }) },
  });
}

function badOption(name: string, problem: string, option: string): InvalidInputError {
  return new InvalidInputError(`${name} ${problem}.`, { details: { option } });
}

/** A value in a few words. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return typeof value === 'bigint' ? `${value}n` : String(value);
  if (Array.isArray(value)) return 'a list';
  const maker: unknown = value.constructor;
  return typeof maker !== 'function' || maker === Object ? 'an object' : `a ${maker.name}`;
}

function quote(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS)}…` : text);
}

/** Whether a value can have fields by name. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Accepts what a test lets through; `allowed` ends the sentence "must be ...". */
export function accepts(allowed: string, isAllowed: (value: unknown) => boolean): OptionCheck {
  return (value) => (isAllowed(value) ? undefined : `must be ${allowed}; found ${describeValue(value)}`);
}

/** Accepts everything: what is inside is checked where it is used. */
export const anything: OptionCheck = () => undefined;

/** Accepts true and false. */
export const flag: OptionCheck = accepts('true or false', (value) => typeof value === 'boolean');

/** Accepts a function. */
export const callback: OptionCheck = accepts('a function', (value) => typeof value === 'function');

/** Accepts an object that is no list. */
export const record: OptionCheck = accepts('an object', isRecord);

/** Accepts a string, the empty one too. */
export const string: OptionCheck = accepts('a string', (value) => typeof value === 'string');

/** Accepts a string that other programs can be given: not empty, and without NUL. */
export const filledString: OptionCheck = accepts(
  'a string that is not empty, without NUL',
  (value) => typeof value === 'string' && value !== '' && !value.includes('\0'),
);

/** Accepts an `AbortSignal`, also one of another realm. */
export const signal: OptionCheck = accepts('an AbortSignal', (value) => isRecord(value) && 'aborted' in value);

/** Accepts a list whose items all pass. */
export function listOf(check: OptionCheck): OptionCheck {
  return (value) => {
    if (!Array.isArray(value)) return `must be a list; found ${describeValue(value)}`;
    for (const [at, item] of value.entries()) {
      const problem = check(item);
      if (problem !== undefined) return `${problem} at [${at}]`;
    }
    return undefined;
  };
}

/** Accepts one of these words. */
export function oneOf(...words: readonly string[]): OptionCheck {
  return accepts(`one of ${words.map((word) => JSON.stringify(word)).join(', ')}`, (value) =>
    words.some((word) => word === value),
  );
}

/** Accepts a whole number; NaN, Infinity and fractions are none. */
export function wholeFrom(min: number, max: number = Number.MAX_SAFE_INTEGER): OptionCheck {
  const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`;
  return accepts(
    `a whole number ${range}`,
    (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max,
  );
}

/** Accepts a time in milliseconds that a timer can wait for. */
export function delayFrom(min: number): OptionCheck {
  return wholeFrom(min, MAX_DELAY_MS);
}

/** Accepts a finite number above zero. */
export const positive: OptionCheck = accepts(
  'a number above 0',
  (value) => typeof value === 'number' && value > 0 && Number.isFinite(value),
);
