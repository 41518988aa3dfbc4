import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { describeValue, isRecord, unknownKey } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import type { Fields, Route } from '../contract/route.ts';

/** The parts of a request that a route describes. */
export type CheckedInput = {
  readonly params: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
};

/** Accepts what a route takes, or throws an InvalidInputError that names what is wrong. */
export function checkInput(
  key: string,
  { params = {}, query = {}, body }: Route,
  given: {
    readonly params: Readonly<Record<string, string>>;
    readonly search: URLSearchParams;
    readonly body: unknown;
  },
): CheckedInput {
  for (const field of given.search.keys()) {
    if (!Object.hasOwn(query, field))
      throw unknownKey(field, { known: Object.keys(query), of: key, kind: 'a parameter' });
    if (given.search.getAll(field).length > 1)
      throw new InvalidInputError(`The parameter "${field}" of ${key} is given more than once. Give it once.`);
  }
  for (const [field, value] of Object.entries(given.params)) parseName(value, `The ${field} of ${key}`);
  return {
    params: parseFields(params, given.params, key),
    query: parseFields(query, Object.fromEntries(given.search), key),
    body: body === undefined ? undefined : parse(body, given.body, `The body of ${key}`),
  };
}

function parseFields(fields: Fields, given: Readonly<Record<string, string>>, key: string) {
  const parsed = Object.entries(fields).map(([field, schema]) => [
    field,
    parse(schema, given[field], `The parameter "${field}" of ${key}`),
  ]);
  return Object.fromEntries(parsed.filter(([, value]) => value !== undefined)) as Readonly<Record<string, unknown>>;
}

/** Schemas pass over a key `__proto__` without a word: whoever sent it is told. */
function checkKept(given: unknown, taken: unknown, what: string): unknown {
  if (given === taken || !isRecord(given) || !isRecord(taken)) return taken;
  if (Object.hasOwn(given, '__proto__') && !Object.hasOwn(taken, '__proto__'))
    throw new InvalidInputError(`${what} has the key "__proto__", which it cannot have. Leave it out.`);
  for (const [key, value] of Object.entries(given)) checkKept(value, taken[key], what);
  return taken;
}

function parse(schema: z.ZodType, value: unknown, what: string): unknown {
  const parsed = schema.safeParse(value);
  if (parsed.success) return checkKept(value, parsed.data, what);
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? '' : `, at ${z.core.toDotPath(issue.path)}`;
  const wrong = valueAt(value, issue?.path ?? []);
  const found = wrong === undefined ? 'it is missing' : `found ${describeValue(wrong)}`;
  throw new InvalidInputError(`${what}${place} cannot be taken: ${issue?.message ?? 'it is wrong'} (${found}).`, {
    details: { issues: parsed.error.issues.map(({ path, message }) => ({ path, message })) },
  });
}

/** What is at the place of an issue; undefined if nothing is. */
function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((part, key) => (part as Readonly<Record<PropertyKey, unknown>> | null | undefined)?.[key], value);
}
