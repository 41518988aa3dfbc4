import { types } from 'node:util';
import { describeValue } from '../../core/options.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { RestoreProblem } from '../engine/loading.ts';

type Fields = Readonly<Record<string, unknown>>;

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
  return [...new Set([...Object.keys(before), ...Object.keys(now)])].flatMap((field): FieldDifference[] => {
    const [was, is] = [kindIn(before, field), kindIn(now, field)];
    if (was === ABSENT) return is === UNSET ? [] : [{ field, kind: 'added', was, is }];
    if (is === ABSENT) return was === UNSET ? [] : [{ field, kind: 'missing', was, is }];
    return was === is || [was, is].some((kind) => OPEN.includes(kind)) ? [] : [{ field, kind: 'changed', was, is }];
  });
}

const ABSENT = 'absent';

function kindIn(kinds: FieldKinds, field: string): string {
  return Object.hasOwn(kinds, field) ? String(kinds[field]) : ABSENT;
}

/** The problem of a field that an agent has and a checkpoint lacks. */
export function keptField(path: readonly PathStep[]): RestoreProblem {
  const problem = `The checkpoint does not have ${describeValue(path.at(-1))}; the agent keeps its own value.`;
  return { path: formatPath(path), problem, kind: 'added' };
}

/** The problem of a field that a checkpoint has and the class of the agent lacks. */
export function lostField(key: string, isCodeKept: boolean): RestoreProblem {
  const end = isCodeKept ? 'what the checkpoint has of it is left out' : 'the agent has it from the checkpoint';
  const problem = `The class does not have ${describeValue(key)}; ${end}.`;
  return { path: formatPath([key]), problem, kind: 'missing' };
}

/** The fields that hold another kind of value in a checkpoint than in an agent that was just made. */
export function findChanged(saved: Fields, own: Fields): FieldDifference[] {
  return compareKinds(kindsOf(saved), kindsOf(own)).filter(({ kind }) => kind === 'changed');
}

/** The problem of a field that the code has not, or with another kind of value than a checkpoint. */
export function changedField(
  { field, was, is, kind }: FieldDifference,
  isCodeKept: boolean,
  path: readonly PathStep[] = [],
): RestoreProblem {
  if (kind === 'missing') return lostField(field, isCodeKept);
  const end = isCodeKept ? 'keeps its own value' : 'has what the checkpoint says';
  const problem = `${describeValue(field)} is ${was} in the checkpoint, and ${is} in the code; the agent ${end}.`;
  return { path: formatPath([...path, field]), problem, kind: 'changed' };
}
