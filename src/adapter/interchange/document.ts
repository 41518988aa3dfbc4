import type { z } from 'zod';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { formatPath, type PathStep } from '../../core/path.ts';

/** What is read of a foreign file; more is refused before it is looked at. */
export const MAX_DOCUMENT_BYTES = 128 * 1024 ** 2;
const MAX_DEPTH = 100;
const MAX_VALUES = 5_000_000;

/** A trajectory or trace that cannot be read: nothing of it is stored. */
export function refuse(format: string, problem: string): InvalidInputError {
  return new InvalidInputError(`This is no ${format} that can be imported: ${problem}. Nothing was stored.`);
}

/** Reads one JSON text of another tool. */
export function parseJson(text: string, format: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, '')); // editors on Windows begin files with it
  } catch (error) {
    throw refuse(format, `it is not JSON (${messageOf(error)})`);
  }
  checkBounds(value, format);
  return value;
}

/** Refuses a value that is too deep or has too many parts, and names that stand for prototypes. */
export function checkBounds(value: unknown, format: string): void {
  let values = 0;
  const open: { readonly value: unknown; readonly path: readonly PathStep[] }[] = [{ value, path: [] }];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (++values > MAX_VALUES) throw refuse(format, `it has more than ${MAX_VALUES} values`);
    if (at.path.length > MAX_DEPTH) throw refuse(format, `it is nested deeper than ${MAX_DEPTH} levels`);
    if (typeof at.value !== 'object' || at.value === null) continue;
    const isList = Array.isArray(at.value);
    for (const [name, child] of Object.entries(at.value)) {
      if (name === '__proto__') throw refuse(format, `${formatPath(at.path)} has a field "__proto__"`);
      open.push({ value: child, path: [...at.path, isList ? Number(name) : name] });
    }
  }
}

/** Reads a value by a schema, or says which part does not fit. */
export function parseShape<Schema extends z.ZodType>(schema: Schema, value: unknown, format: string): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw refuse(format, `${formatPath((issue?.path ?? []) as PathStep[])}: ${issue?.message ?? 'it does not fit'}`);
}
