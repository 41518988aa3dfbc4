import { InvalidInputError } from './errors.ts';
import { withoutTokens } from './secret/scan/redaction-scan.ts';
import { suggest } from './suggestion.ts';
import { MAX_DELAY_MS } from './time/timer.ts';

/** Says what is wrong with a value, as the end of a sentence ("must be true or false; found 3"); undefined if nothing is. */
export type OptionCheck = (value: unknown) => string | InnerProblem | undefined;

/** What is wrong with a part of a value: `.ttlMs`, `[2]`. */
type InnerProblem = { readonly at: string; readonly problem: string };

/** An option that has another name, or another place: `policy.keepLast`. */
type RenamedOption = { readonly renamedTo: string };

/** An option that must be given. */
type RequiredOption = { readonly required: OptionCheck };

/** What each option of a call accepts; `OptionChecks<T>` lists every option of `T`. */
export type OptionChecks<Options extends object = Record<never, never>> = {
  readonly [Key in keyof Options]-?: OptionCheck | RequiredOption;
} & Readonly<Record<string, OptionCheck | RequiredOption | RenamedOption>>;

/** More of a string than this is not repeated in an error. */
const MAX_SHOWN_CHARS = 40;

/**
 * Accepts the options of a call, such as `session()`, or throws an `InvalidInputError` that names the option, what was
 * found and what is meant. An option that is undefined counts as left out. Its cost is one lookup per option given.
 */
export function checkOptions(options: unknown, checks: OptionChecks, of: string): void {
  if (!isRecord(options))
    throw new InvalidInputError(`The options of ${of} must be an object; found ${describeValue(options)}.`);
  const found = findProblem(options, checks);
  if (found === undefined) return;
  throw found.problem === undefined ? unknownOption(found.key, checks, of) : badOption(found.key, found.problem, of);
}

/** The first option that is not as it must be; one without a problem of its own is unknown. */
function findProblem(given: Readonly<Record<string, unknown>>, checks: OptionChecks): Found | undefined {
  for (const key of Object.keys(given)) {
    const check = checkOf(checks, key);
    if (check === undefined) return { key, problem: undefined };
    const value = given[key];
    const problem = value === undefined ? undefined : check(value);
    if (problem !== undefined) return { key, problem };
  }
  for (const [key, check] of requiredIn(checks))
    if (given[key] === undefined) return { key, problem: check(undefined) ?? 'must be given' };
  return undefined;
}

type Found = { readonly key: string; readonly problem: string | InnerProblem | undefined };

/** Accepts one value, such as an argument, or throws an `InvalidInputError` that begins with its name. */
export function checkValue(value: unknown, check: OptionCheck, name: string): void {
  const problem = check(value);
  if (problem === undefined) return;
  const { at, problem: text } = toInner(problem);
  throw new InvalidInputError(ended(`${name}${at} ${text}`), { details: { option: `${name}${at}` } });
}

/** Refuses arguments after those that a call has. */
export function refuseFurther(further: readonly unknown[], of: string, instead: string): void {
  const found = further.find((argument) => argument !== undefined);
  if (found !== undefined)
    throw new InvalidInputError(`${of} takes no further argument; found ${describeValue(found)}. ${instead}.`);
}

function checkOf(checks: OptionChecks, key: string): OptionCheck | undefined {
  const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
  if (typeof check === 'function') return check;
  return check !== undefined && 'required' in check ? check.required : undefined;
}

const required = new WeakMap<OptionChecks, readonly (readonly [string, OptionCheck])[]>();

/** The options that must be given; looked up once for each call that there is. */
function requiredIn(checks: OptionChecks): readonly (readonly [string, OptionCheck])[] {
  const known = required.get(checks);
  if (known !== undefined) return known;
  const found = Object.entries(checks).flatMap(([key, check]) =>
    typeof check === 'object' && 'required' in check ? [[key, check.required] as const] : [],
  );
  required.set(checks, found);
  return found;
}

/** The same fields, each of which may be left out or undefined. */
export type Optional<Fields extends object> = { readonly [Key in keyof Fields]?: Fields[Key] | undefined };

function unknownOption(key: string, checks: OptionChecks, of: string): InvalidInputError {
  const renamed = Object.hasOwn(checks, key) ? checks[key] : undefined;
  if (typeof renamed === 'object' && 'renamedTo' in renamed)
    return new InvalidInputError(`${describeValue(key)} is not an option of ${of}; use "${renamed.renamedTo}".`, {
      details: { option: key, suggestion: renamed.renamedTo },
    });
  return unknownKey(key, { known: knownIn(checks), of });
}

function knownIn(checks: OptionChecks): string[] {
  return Object.keys(checks).filter((key) => checkOf(checks, key) !== undefined);
}

/** The error for a key that is none of the known ones. */
export function unknownKey(
  key: string,
  { known, of, kind = 'an option' }: { readonly known: readonly string[]; readonly of: string; readonly kind?: string },
): InvalidInputError {
  const suggestion = suggest(key, known);
  return new InvalidInputError(`${describeValue(key)} is not ${kind} of ${of}; ${meant(suggestion, known)}`, {
    details: { option: key, known, ...(suggestion !== undefined && { suggestion }) },
  });
}

function meant(suggestion: string | undefined, known: readonly string[]): string {
  return suggestion === undefined ? `known: ${known.join(', ')}.` : `did you mean "${suggestion}"?`;
}

function badOption(key: string, problem: string | InnerProblem, of: string): InvalidInputError {
  const { at, problem: text } = toInner(problem);
  return new InvalidInputError(ended(`The option "${key}${at}" of ${of} ${text}`), {
    details: { option: `${key}${at}` },
  });
}

function ended(sentence: string): string {
  return /[.?]$/.test(sentence) ? sentence : `${sentence}.`;
}

function toInner(problem: string | InnerProblem): InnerProblem {
  return typeof problem === 'string' ? { at: '', problem } : problem;
}

/** A value in a few words. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'function') return isClass(value) ? `the class ${nameOf(value)}` : 'a function';
  if (typeof value !== 'object' || value === null) return typeof value === 'bigint' ? `${value}n` : String(value);
  if (Array.isArray(value)) return 'a list';
  const maker: unknown = value.constructor;
  return typeof maker !== 'function' || maker === Object ? 'an object' : `a ${maker.name}`;
}

function quote(given: string): string {
  const text = withoutTokens(given);
  return JSON.stringify(text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS)}…` : text);
}

/** Whether a value can have fields by name. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a value is an object of no class. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}

/** Whether a value is an object of any kind, a list too. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Accepts what a test lets through; `allowed` ends the sentence "must be ...". */
export function accepts(allowed: string, isAllowed: (value: unknown) => boolean): OptionCheck {
  return (value) => (isAllowed(value) ? undefined : `must be ${allowed}; found ${describeValue(value)}`);
}

/** Accepts everything: what is inside is checked where it is used. */
export const anything: OptionCheck = () => undefined;

/** Accepts true and false. */
export const flag: OptionCheck = accepts('true or false', (value) => typeof value === 'boolean');

/** Accepts a function that can be called: a class cannot, without `new`. */
export const callback: OptionCheck = (value) => {
  if (typeof value !== 'function') return `must be a function; found ${describeValue(value)}`;
  return isClass(value)
    ? `must be a function; found ${describeValue(value)}. Pass () => new ${nameOf(value)}(...)`
    : undefined;
};

function nameOf({ name }: { readonly name: string }): string {
  return name === '' ? 'X' : name;
}

/** The prototype of a class cannot be replaced; nor can that of what the language brings along, such as `String`, which can be called. */
function isClass(value: object): boolean {
  const isFixed = Object.getOwnPropertyDescriptor(value, 'prototype')?.writable === false;
  return isFixed && Function.prototype.toString.call(value).startsWith('class');
}

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

/** Accepts an object with these options and no others. */
export function options(checks: OptionChecks): OptionCheck {
  return (value) => {
    if (!isRecord(value)) return `must be an object; found ${describeValue(value)}`;
    const found = findProblem(value, checks);
    if (found === undefined) return undefined;
    return found.problem === undefined
      ? unknownInside(found.key, knownIn(checks))
      : inside(`.${found.key}`, found.problem);
  };
}

function unknownInside(key: string, known: readonly string[]): string {
  return `has the unknown key ${describeValue(key)}; ${meant(suggest(key, known), known)}`;
}

function inside(at: string, problem: string | InnerProblem): InnerProblem {
  const inner = toInner(problem);
  return { at: `${at}${inner.at}`, problem: inner.problem };
}

/** Accepts an object whose values all pass, under keys of the caller's own. */
export function recordOf(check: OptionCheck): OptionCheck {
  return (value) => {
    if (!isRecord(value)) return `must be an object; found ${describeValue(value)}`;
    return findInside(Object.entries(value), (part) => (part === undefined ? undefined : check(part)));
  };
}

/** Accepts a list whose items all pass. */
export function listOf(check: OptionCheck): OptionCheck {
  return (value) => {
    if (!Array.isArray(value)) return `must be a list; found ${describeValue(value)}`;
    return findInside(value.entries(), check);
  };
}

function findInside(
  parts: Iterable<readonly [string | number, unknown]>,
  check: OptionCheck,
): InnerProblem | undefined {
  for (const [key, part] of parts) {
    const problem = check(part);
    if (problem !== undefined) return inside(`[${JSON.stringify(key)}]`, problem);
  }
  return undefined;
}

/** Accepts what any of the checks lets through; `allowed` ends the sentence "must be ...". */
export function either(allowed: string, ...checks: readonly OptionCheck[]): OptionCheck {
  return accepts(allowed, (value) => checks.some((check) => check(value) === undefined));
}

/** Accepts null, and what the check accepts. */
export function orNull(check: OptionCheck): OptionCheck {
  return (value) => (value === null ? undefined : check(value));
}

/** Accepts an object that has these methods. */
export function having(...methods: readonly string[]): OptionCheck {
  return accepts(`an object with ${methods.map((method) => `${method}()`).join(', ')}`, (value) =>
    methods.every((name) => isRecord(value) && typeof value[name] === 'function'),
  );
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

/** Accepts a date that is one. */
export const date: OptionCheck = accepts(
  'a valid Date',
  (value) => value instanceof Date && !Number.isNaN(value.getTime()),
);
