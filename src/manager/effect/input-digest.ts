import type { StateCodec } from '../../core/codec/state-codec.ts';
import { digestText } from '../../core/tree/chunk.ts';

/**
 * What the input of a step is known by: the digest of its stored form, which is without secrets, then a mark for each
 * secret that was left out, `<digest>~<mark>.<mark>`. If its keys are in another order than the alphabet's, the same of the
 * input with sorted keys follows: `<digest>~<marks>~<sorted digest>~<sorted marks>`. Older versions wrote neither.
 */
export type InputDigest = string;

/** Of larger inputs the order of keys counts: they are prompts, which programs write, and would be digested twice. */
const MAX_SORTED_VALUES = 1000;

/** A mark tells two secrets apart and proves no guess: many others have the same. A secret that can be guessed gets less of one. */
const MARK_CHARS = { short: 2, long: 4 };
const LONG_SECRET_CHARS = 16;

/** More secrets than these are not marked. It is the last, because the first may come from a restored state and be left out. */
const MAX_MARKS = 64;

/** Digests the input of a step; throws if it cannot be saved. */
export function digestInput(codec: StateCodec, input: unknown): InputDigest {
  const sorted = sortKeys(input, { left: MAX_SORTED_VALUES });
  const forms = sorted === input ? [input] : [input, sorted];
  const parts = forms.flatMap((form) => {
    const { digest, secrets } = codec.digest(form);
    return [digest, secrets.slice(-MAX_MARKS).map(markOf).join('.')];
  });
  return parts.join('~').replace(/~+$/, '');
}

type Entry = readonly [key: unknown, child: unknown];

/** The input with the keys of its objects in order, inside lists, maps and sets too; the input itself if they are, or if it is too large. */
function sortKeys(value: unknown, budget: { left: number }): unknown {
  if (typeof value !== 'object' || value === null || !SORTED_INSIDE.has(Object.getPrototypeOf(value))) return value;
  const entries: readonly Entry[] =
    value instanceof Map || value instanceof Set ? [...value.entries()] : Object.entries(value);
  budget.left -= entries.length;
  if (budget.left < 0) return value;
  const sorted = entries.map(([key, child]): Entry => [key, sortKeys(child, budget)]);
  if (isKeyed(value)) sorted.sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
  if (budget.left < 0 || sorted.every(([key, child], at) => key === entries[at]?.[0] && child === entries[at]?.[1]))
    return value;
  return remake(value, sorted);
}

const SORTED_INSIDE: ReadonlySet<unknown> = new Set([
  null,
  Object.prototype,
  Array.prototype,
  Map.prototype,
  Set.prototype,
]);

/** Lists, maps and sets have an order of their own. */
function isKeyed(value: object): boolean {
  return !Array.isArray(value) && !(value instanceof Map) && !(value instanceof Set);
}

function remake(value: object, entries: readonly Entry[]): unknown {
  if (value instanceof Map) return new Map(entries);
  if (isKeyed(value)) return Object.setPrototypeOf(Object.fromEntries(entries), Object.getPrototypeOf(value));
  const items = entries.map(([, child]) => child);
  return value instanceof Set ? new Set(items) : items;
}

/** The same for a secret everywhere: salted, each use of a secret would tell more of it. */
function markOf(secret: string): string {
  const chars = secret.length < LONG_SECRET_CHARS ? MARK_CHARS.short : MARK_CHARS.long;
  return digestText(`secret in an input ${secret}`).slice(0, chars);
}

/**
 * Whether two inputs count as one: as they were given, or with sorted keys. Where secrets were left out of one of them, because
 * it comes from a restored state or an older version recorded it, those that are left decide.
 */
export function isSameInput(one: InputDigest, other: InputDigest): boolean {
  return isSameForm(givenForm(one), givenForm(other)) || isSameForm(sortedForm(one), sortedForm(other));
}

function isSameForm(one: string, other: string): boolean {
  if (one === other) return true;
  if (withoutMarks(one) !== withoutMarks(other)) return false;
  const [fewer, more] = [marksOf(one), marksOf(other)].toSorted((a, b) => a.length - b.length) as [string[], string[]];
  if (fewer.length === more.length) return false;
  let at = 0;
  for (const mark of more) if (mark === fewer[at]) at++;
  return at === fewer.length;
}

/** The input as it was given: all that older versions wrote. */
export function givenForm(digest: InputDigest): string {
  return digest.split('~', 2).join('~').replace(/~$/, '');
}

/** The input with sorted keys: the same for calls that differ in the order of keys only. */
export function sortedForm(digest: InputDigest): string {
  const [given = '', marks = '', ...sorted] = digest.split('~');
  const [hash = given, sortedMarks = ''] = sorted;
  return `${hash}~${sorted.length === 0 ? marks : sortedMarks}`.replace(/~$/, '');
}

/** The digest of the stored form. */
export function withoutMarks(digest: InputDigest): string {
  return digest.split('~', 1)[0] ?? '';
}

/** Whether secrets were left out. */
export function hasMarks(digest: InputDigest): boolean {
  return marksOf(digest).length > 0;
}

function marksOf(digest: InputDigest): string[] {
  const [, marks = ''] = digest.split('~');
  return marks === '' ? [] : marks.split('.');
}
