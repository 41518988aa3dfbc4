import { hasErrorCode, SavestateError } from '../../core/errors.ts';

/** How a command ends, for scripts; the scheme is restic's. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  partial: 3,
  damaged: 4,
  noStorage: 10,
  locked: 11,
  notFound: 13,
  conflict: 14,
  unsupported: 15,
  replayMismatch: 16,
  model: 17,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const BY_CODE: Readonly<Record<SavestateError['code'], ExitCode>> = {
  NOT_FOUND: EXIT.notFound,
  CONFLICT: EXIT.conflict,
  INVALID_INPUT: EXIT.usage,
  CORRUPT: EXIT.damaged,
  UNSUPPORTED: EXIT.unsupported,
  REPLAY_MISMATCH: EXIT.replayMismatch,
  STORAGE: EXIT.failed,
  CLOSED: EXIT.failed,
  MODEL: EXIT.model,
};

const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** The exit code of an error. What is not known is a failure. */
export function exitCodeOf(error: unknown): ExitCode {
  if (isInterrupt(error)) return EXIT.interrupted;
  if (!isSavestateError(error)) return EXIT.failed;
  return exitCodeByDetails(error) ?? BY_CODE[error.code] ?? EXIT.failed;
}

function exitCodeByDetails({ code, details }: SavestateError): ExitCode | undefined {
  if (code === 'NOT_FOUND' && details.kind === 'storage') return EXIT.noStorage;
  if (code === 'NOT_FOUND' && Array.isArray(details.candidates) && details.candidates.length > 0) return EXIT.usage;
  const isLocked = details.sqliteCode === SQLITE_BUSY || details.sqliteCode === SQLITE_LOCKED;
  return isLocked || (code === 'CONFLICT' && details.kind === 'lease') ? EXIT.locked : undefined;
}

/** Whether a person stopped the command. */
export function isInterrupt(error: unknown): boolean {
  return error instanceof Error && (error.name === 'AbortError' || ('code' in error && error.code === 'ABORT_ERR'));
}

function isSavestateError(error: unknown): error is SavestateError {
  return (
    error instanceof SavestateError ||
    (Object.keys(BY_CODE) as SavestateError['code'][]).some((code) => hasErrorCode(error, code))
  );
}

/** An error for a person. One that is not ours is a fault of this program: the stack helps whoever repairs it. */
export function describeError(error: unknown): string {
  if (error instanceof SavestateError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
