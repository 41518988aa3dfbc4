/** Whether a value has a certain shape. */
export type ShapeCheck = (value: unknown) => boolean;

/** A text. */
export const isText: ShapeCheck = (value) => typeof value === 'string';

/** True or false. */
export const isFlag: ShapeCheck = (value) => typeof value === 'boolean';

/** A number that is neither infinite nor none. */
export const isFiniteNumber: ShapeCheck = (value) => Number.isFinite(value);

/** A whole number from 0. */
export const isCount: ShapeCheck = (value) => Number.isSafeInteger(value) && Number(value) >= 0;

/** What is shaped so, or absent. */
export function optional(check: ShapeCheck): ShapeCheck {
  return (value) => value === undefined || check(value);
}

/** A list of things of one shape. */
export function listOf(check: ShapeCheck): ShapeCheck {
  // Not `every`, which passes over holes.
  return (value) => Array.isArray(value) && !value.includes(undefined) && value.every(check);
}

/** A list with one thing of each shape. */
export function tupleOf(...checks: readonly ShapeCheck[]): ShapeCheck {
  return (value) =>
    Array.isArray(value) && value.length === checks.length && checks.every((check, at) => check(value[at]));
}

/** An object with at least these fields. */
export function fieldsLike(checks: Readonly<Record<string, ShapeCheck>>): ShapeCheck {
  const entries = Object.entries(checks);
  return (value) => isFields(value) && entries.every(([field, check]) => check(value[field]));
}

/** An object, not a list. */
export function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
