import type { ErrorCode } from './errors.ts';

/** How an error ends a command, and what status an HTTP reply has. */
type ErrorOutcome = { readonly exitCode: number; readonly httpStatus: number };

/** One row for each code of an error. */
export const ERROR_OUTCOMES = {
  NOT_FOUND: { exitCode: 13, httpStatus: 404 },
  CONFLICT: { exitCode: 14, httpStatus: 409 },
  INVALID_INPUT: { exitCode: 2, httpStatus: 400 },
  CORRUPT: { exitCode: 4, httpStatus: 500 },
  UNSUPPORTED: { exitCode: 15, httpStatus: 501 },
  REPLAY_MISMATCH: { exitCode: 16, httpStatus: 409 },
  STORAGE: { exitCode: 1, httpStatus: 503 },
  CLOSED: { exitCode: 1, httpStatus: 503 },
  MODEL: { exitCode: 17, httpStatus: 502 },
  KEY: { exitCode: 18, httpStatus: 423 },
} as const satisfies Readonly<Record<ErrorCode, ErrorOutcome>>;

/** Whether something is the code of an error of ours, also of another copy of this package. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERROR_OUTCOMES, code);
}
