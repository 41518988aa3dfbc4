import { ERROR_OUTCOMES, isErrorCode } from '../../core/error-outcomes.ts';
import { codeOf, SavestateError } from '../../core/errors.ts';

/** How a command ends, for scripts; the scheme is restic's. */
export const EXIT = {
  ok: 0,
  failed: ERROR_OUTCOMES.STORAGE.exitCode,
  usage: ERROR_OUTCOMES.INVALID_INPUT.exitCode,
  partial: 3,
  damaged: ERROR_OUTCOMES.CORRUPT.exitCode,
  noStorage: 10,
  locked: 11,
  notFound: ERROR_OUTCOMES.NOT_FOUND.exitCode,
  conflict: ERROR_OUTCOMES.CONFLICT.exitCode,
  unsupported: ERROR_OUTCOMES.UNSUPPORTED.exitCode,
  replayMismatch: ERROR_OUTCOMES.REPLAY_MISMATCH.exitCode,
  model: ERROR_OUTCOMES.MODEL.exitCode,
  key: ERROR_OUTCOMES.KEY.exitCode,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** The exit code of an error. What is not known is a failure. */
export function exitCodeOf(error: unknown): ExitCode {
  if (isInterrupt(error)) return EXIT.interrupted;
  if (!isSavestateError(error)) return EXIT.failed;
  return exitCodeByDetails(error) ?? ERROR_OUTCOMES[error.code].exitCode;
}

function exitCodeByDetails({ code, details }: SavestateError): ExitCode | undefined {
  if (code === 'NOT_FOUND' && details.kind === 'storage') return EXIT.noStorage;
  if (code === 'NOT_FOUND' && Array.isArray(details.candidates) && details.candidates.length > 0) return EXIT.usage;
  const isLocked = details.sqliteCode === SQLITE_BUSY || details.sqliteCode === SQLITE_LOCKED;
  return isLocked || (code === 'CONFLICT' && details.kind === 'lease') ? EXIT.locked : undefined;
}

/** Whether a person stopped the command. */
export function isInterrupt(error: unknown): boolean {
  return error instanceof Error && (error.name === 'AbortError' || codeOf(error) === 'ABORT_ERR');
}

function isSavestateError(error: unknown): error is SavestateError {
  return error instanceof Error && 'code' in error && isErrorCode(error.code);
}

/** An error for a person. One that is not ours is a fault of this program: the stack helps whoever repairs it. */
export function describeError(error: unknown): string {
  if (error instanceof SavestateError) return error.message;
  if (error instanceof Error && 'syscall' in error)
    return `${error.message}. Check the path, its permissions and the disk.`; // of the machine
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
