import { types } from 'node:util';
import { describeValue } from '../../core/options.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { RestoreProblem } from '../engine/loading.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** What each field of an agent holds, in words that a sentence takes: "a number", "a list". */
export type FieldKinds = Readonly<Record<string, string>>;

/** How the code of an agent differs from what was saved, or from the code that it was saved with. */
export type FieldDifference = {
  readonly field: string;
  readonly kind: 'changed' | 'missing' | 'added';
  readonly was: string;
  readonly is: string;
};

/** What has no value yet may become of any kind; what is undefined may as well not be there. */
const UNSET = 'undefined';
const ABSENT = 'absent';
const OPEN: readonly string[] = [UNSET, 'null', 'a secret', 'a function', 'a symbol'];

/** What the fields of an agent hold. */
export function kindsOf(fields: Fields): FieldKinds {
  return Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, kindOf(value)]));
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (typeof value !== 'object') return `a ${typeof value}`;
  if (Array.isArray(value)) return 'a list';
  if (value instanceof SecretRef) return 'a secret';
  if (types.isNativeError(value)) return 'an error';
  if (types.isArrayBufferView(value)) return 'bytes';
  const known = [Map, Set, Date, URL, RegExp].find((one) => value instanceof one);
  return known === undefined ? 'an object' : `a ${known.name}`;
}

/** The fields that the code gained, lost, or has another kind of value for. */
export function compareKinds(before: FieldKinds, now: FieldKinds): FieldDifference[] {
  const kindIn = (kinds: FieldKinds, field: string) => (Object.hasOwn(kinds, field) ? String(kinds[field]) : ABSENT);
  return [...new Set([...Object.keys(before), ...Object.keys(now)])].flatMap(
    (field) => compareKind(field, kindIn(before, field), kindIn(now, field)) ?? [],
  );
}

/** The same of one field. */
export function compareField(field: string, saved: Fields, own: Fields): FieldDifference | undefined {
  const kindIn = (fields: Fields) => (Object.hasOwn(fields, field) ? kindOf(fields[field]) : ABSENT);
  return compareKind(field, kindIn(saved), kindIn(own));
}

function compareKind(field: string, was: string, is: string): FieldDifference | undefined {
  if (was === ABSENT) return is === UNSET ? undefined : { field, kind: 'added', was, is };
  if (is === ABSENT) return was === UNSET ? undefined : { field, kind: 'missing', was, is };
  return was === is || [was, is].some((kind) => OPEN.includes(kind)) ? undefined : { field, kind: 'changed', was, is };
}

/** The problem of a field that the code has otherwise than a checkpoint, or that only one of the two has. */
export function differenceAt(
  path: readonly PathStep[],
  { field, kind, was, is }: Pick<FieldDifference, 'field' | 'kind'> & Partial<FieldDifference>,
): RestoreProblem {
  const name = describeValue(field);
  const problem = {
    added: `The checkpoint does not have ${name}; the agent keeps its own value.`,
    missing: `The checkpoint has ${name}, and the class does not.`,
    changed: `${name} is ${was} in the checkpoint, and ${is} in the code.`,
  }[kind];
  return { path: formatPath([...path, field]), problem, kind };
}

/** The problem of a value that an agent does not have as it was saved. */
export function notPutBack(path: readonly PathStep[], why?: string): RestoreProblem {
  const what = path.length === 0 ? 'The state' : describeValue(path.at(-1));
  const problem = `${what} is not as it was saved${why === undefined ? '' : `: ${why}`}. Give the agent a loadState that takes it over.`;
  return { path: formatPath(path), problem };
}
