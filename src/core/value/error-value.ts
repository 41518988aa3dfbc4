import { CorruptError } from '../errors.ts';

const BUILT_IN = {
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

/** The built-in class an error is restored as; errors of other classes become `Error` with their name kept. */
export function errorClass(error: Error): string {
  const name = Object.getPrototypeOf(error)?.constructor?.name;
  return Object.hasOwn(BUILT_IN, name) ? name : 'Error';
}

/** An error's data: name, message, stack, cause, errors, and whatever else was put on it. */
export function errorFields(error: Error): ErrorFields {
  const fields: ErrorFields = { name: error.name, message: error.message };
  for (const key of ['stack', 'cause', 'errors']) {
    if (Object.hasOwn(error, key)) fields[key] = (error as unknown as ErrorFields)[key];
  }
  for (const key of Object.keys(error)) define(fields, key, (error as unknown as ErrorFields)[key]);
  return fields;
}

/** Builds an error from its data. No constructor of the caller's is called. */
export function createError(className: string, fields: ErrorFields): Error {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
    throw new CorruptError('An error lacks its fields.');
  const Class = (BUILT_IN as Record<string, new (message?: string) => Error>)[
    Object.hasOwn(BUILT_IN, className) ? className : 'Error'
  ];
  const error: Error = className === 'AggregateError' ? new AggregateError([]) : new (Class ?? Error)();
  const { name, ...rest } = fields;
  for (const [key, value] of Object.entries(rest))
    define(error, key, value, HIDDEN.has(key) ? { enumerable: false } : {});
  if (error.name !== name) define(error, 'name', name, { enumerable: false });
  return error;
}

const HIDDEN = new Set(['message', 'stack', 'cause', 'errors']);

function define(target: object, key: string, ...[value, flags]: [unknown, PropertyDescriptor?]): void {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true, ...flags });
}
