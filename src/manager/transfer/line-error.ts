import { CorruptError, hasErrorCode, withoutAdvice } from '../../core/errors.ts';

/** What is wrong with a line is damage of the file, whatever it would be elsewhere. */
export function atLine(line: number, error: unknown): unknown {
  const isOurs = hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'INVALID_INPUT');
  if (!isOurs) return error;
  const { message, details } = error as CorruptError;
  const found = withoutAdvice(message); // nothing was brought in that could be verified
  return new CorruptError(`The exported session cannot be brought in: line ${line}: ${found}`, {
    cause: error,
    details: { ...details, line },
  });
}

/** A value of a file as an error names it. */
export function describeFound(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
