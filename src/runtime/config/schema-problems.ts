import { type ZodType, z } from 'zod';
import { isRecord } from '../../core/options.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { KeyPath, Problem } from './problem.ts';
import type { ProblemSource } from './yaml-source.ts';

/** A part of a document that was checked: its value, or undefined and the problems. */
export type Checked<Value> = { readonly value: Value | undefined; readonly problems: readonly Problem[] };

type CheckOptions<Schema extends ZodType> = {
  readonly source: ProblemSource;
  readonly schema: Schema;
  readonly value: unknown;
  readonly path: KeyPath;
};

/** Checks a part of a document against a schema, and places what is wrong with it. */
export function checkSchema<Schema extends ZodType>({
  source,
  schema,
  value,
  path,
}: CheckOptions<Schema>): Checked<z.output<Schema>> {
  if (source.isText && path.length === 0 && isForeign(value, keysOf(schema, []))) {
    const message = `must be a mapping with some of these keys: ${keysOf(schema, []).join(', ')}.`;
    return { value: undefined, problems: [source.place([], message)] };
  }
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data, problems: [] };
  const problems = result.error.issues.flatMap((issue) => {
    const keys = issue.path.filter((key) => typeof key !== 'symbol');
    const at = [...path, ...keys];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => unknownKey(source, at, { key, known: keysOf(schema, keys) }));
    return [source.place(at, describe(issue, valueAt(value, keys)))];
  });
  return { value: undefined, problems };
}

/** Whether a document is something else: it is no mapping, or no key of it is nearly one of those that are known. */
function isForeign(value: unknown, known: readonly string[]): boolean {
  if (value === null || value === undefined) return false;
  if (!isRecord(value)) return true;
  const keys = Object.keys(value);
  return keys.length > 0 && !keys.some((key) => known.includes(key) || suggest(key, known) !== undefined);
}

/** A key that nobody knows: most often a slip of the hand. */
export function unknownKey(
  source: ProblemSource,
  path: KeyPath,
  { key, known }: { readonly key: string; readonly known: readonly string[] },
): Problem {
  const suggestion = suggest(key, known);
  const message = `unknown key "${key}".${formatSuggestion(suggestion)} Known here: ${known.join(', ')}.`;
  return source.place(path, message, { key, ...(suggestion !== undefined && { suggestion }) });
}

/** The keys that an object at a path of a schema may have. */
function keysOf(schema: ZodType, path: KeyPath): string[] {
  const inner = unwrap(schema);
  const [key, ...rest] = path;
  if (inner instanceof z.ZodUnion) return inner.options.flatMap((option) => keysOf(option as ZodType, path));
  if (key === undefined) return inner instanceof z.ZodObject ? Object.keys(inner.shape) : [];
  const next = partOf(inner, key);
  return next === undefined ? [] : keysOf(next, rest);
}

function partOf(schema: ZodType, key: string | number): ZodType | undefined {
  if (schema instanceof z.ZodArray) return schema.element as ZodType;
  if (schema instanceof z.ZodRecord) return schema.valueType as ZodType;
  return schema instanceof z.ZodObject ? (schema.shape as Record<string, ZodType>)[key] : undefined;
}

/** A schema without its default, and without that it may be left out. */
export function unwrap(schema: ZodType): ZodType {
  const isWrapped =
    schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault;
  return isWrapped ? unwrap(schema.unwrap() as ZodType) : schema;
}

function describe(issue: z.core.$ZodIssue, found: unknown): string {
  if (issue.code === 'invalid_value') {
    const values = issue.values.map(String);
    const suggestion = typeof found === 'string' ? suggest(found, values) : undefined;
    return `must be one of ${values.join(', ')}; found ${show(found)}.${formatSuggestion(suggestion)}`;
  }
  if (issue.code === 'invalid_type') return `must be ${article(issue.expected)}; found ${show(found)}.`;
  return `${describeLimit(issue) ?? issue.message}; found ${show(found)}.`;
}

/** In place of the words of the validator, where the schema has none of its own. */
function describeLimit(issue: z.core.$ZodIssue): string | undefined {
  if (issue.code !== 'too_small' || !issue.message.startsWith('Too small')) return undefined;
  if (issue.origin === 'string' || issue.origin === 'array') return 'must not be empty';
  return `must be ${issue.inclusive === true ? `${issue.minimum} or more` : `more than ${issue.minimum}`}`;
}

function article(expected: string): string {
  const words: Record<string, string> = {
    object: 'a mapping',
    array: 'a list',
    record: 'a mapping',
    string: 'a text',
    int: 'a whole number',
  };
  return words[expected] ?? `a ${expected}`;
}

function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a mapping';
  if (typeof value === 'number') return String(value);
  return JSON.stringify(value)?.slice(0, 60) ?? typeof value;
}

function valueAt(value: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>(
    (at, key) => (typeof at === 'object' && at !== null ? (at as Record<string | number, unknown>)[key] : undefined),
    value,
  );
}
