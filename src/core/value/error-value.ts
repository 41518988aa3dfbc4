import { CorruptError } from '../errors.ts';

/** The built-in errors by name. */
export const BUILT_IN = {
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
  AggregateError,
} as const;

type ErrorFields = { [key: string]: unknown };

/** Properties that an error usually has without showing them. */
const HIDDEN = ['name', 'message', 'stack', 'cause', 'errors'];

/**
 * The built-in class an error is restored as; errors of other classes become `Error` with their name kept. Behind it, each after
 * a `+`, the properties that errors usually hide and this one does not.
 */
export function errorClass(error: Error): string {
  const name = Object.getPrototypeOf(error)?.constructor?.name;
  const shown = HIDDEN.filter((key) => isShown(error, key));
  return [Object.hasOwn(BUILT_IN, name) ? name : 'Error', ...shown].join('+');
}

/** An error's data: name, message, stack, cause, errors, and whatever else was put on it. */
export function errorFields(error: Error): ErrorFields {
  const fields: ErrorFields = {};
  const values = error as unknown as ErrorFields;
  for (const key of HIDDEN) {
    const isWritten = key === 'name' || Object.hasOwn(error, key) || (key === 'message' && error.message !== '');
    if (isWritten && !isShown(error, key)) fields[key] = values[key];
  }
  for (const key of Object.keys(error)) define(fields, key, values[key]);
  return fields;
}

function isShown(error: object, key: string): boolean {
  return Object.getOwnPropertyDescriptor(error, key)?.enumerable === true;
}

/** Builds an error from its data. No constructor of the caller's is called. */
export function createError(classAndShown: string, fields: ErrorFields): Error {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
    throw new CorruptError('An error lacks its fields.');
  const { className, shown } = readClass(classAndShown);
  const error = createBlank(className);
  for (const key of ['stack', 'errors']) if (!Object.hasOwn(fields, key)) Reflect.deleteProperty(error, key);
  for (const [key, value] of Object.entries(fields)) {
    if (!HIDDEN.includes(key) || shown.includes(key)) define(error, key, value);
    else hide(error, key, value);
  }
  return error;
}

function readClass(written: string): { className: keyof typeof BUILT_IN; shown: readonly string[] } {
  const [className = '', ...shown] = written.split('+');
  if (Object.hasOwn(BUILT_IN, className) && shown.every((key) => HIDDEN.includes(key)))
    return { className: className as keyof typeof BUILT_IN, shown };
  throw new CorruptError(`An error is written as ${JSON.stringify(written.slice(0, 60))}, which no error is.`);
}

/** A name that the class has already is not put on the error. */
function hide(error: Error, key: string, value: unknown): void {
  if (key !== 'name' || error.name !== value) define(error, key, value, { enumerable: false });
}

function createBlank(className: keyof typeof BUILT_IN): Error {
  if (className === 'AggregateError') return new AggregateError([]);
  return new BUILT_IN[className]();
}

function define(target: object, key: string, ...[value, flags]: [unknown, PropertyDescriptor?]): void {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true, ...flags });
}
