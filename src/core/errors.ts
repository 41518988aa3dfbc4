import { withoutTokens } from './secret/scan/redaction-scan.ts';

/** The closed set of failure kinds. Callers act on `code`, never on the class or the wording. */
export type ErrorCode =
  | 'NOT_FOUND'
  | 'CONFLICT'
  | 'INVALID_INPUT'
  | 'CORRUPT'
  | 'UNSUPPORTED'
  | 'REPLAY_MISMATCH'
  | 'STORAGE'
  | 'CLOSED'
  | 'MODEL'
  | 'KEY';

/** Facts behind an error, safe to log and to send to a client. */
export type ErrorDetails = Readonly<Record<string, unknown>>;

type ErrorOptions = { readonly details?: ErrorDetails; readonly cause?: unknown };

/** The base of every error this package throws; recognised by `code`. */
export class SavestateError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(withoutTokens(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.details = withoutSecrets(options.details ?? {});
  }

  toJSON(): { code: ErrorCode; message: string; details: ErrorDetails } {
    return { code: this.code, message: this.message, details: this.details };
  }
}

/** What a caller passed in the wrong place may be a token. */
function withoutSecrets(details: ErrorDetails): ErrorDetails {
  const scrubbed = Object.entries(details).map(([key, value]) => [
    key,
    typeof value === 'string' ? withoutTokens(value) : value,
  ]);
  return Object.fromEntries(scrubbed);
}

function errorWith(code: ErrorCode): new (message: string, options?: ErrorOptions) => SavestateError {
  return class extends SavestateError {
    constructor(message: string, options?: ErrorOptions) {
      super(code, message, options);
    }
  };
}

/** What was asked for does not exist, or its short form fits more than one. */
export class NotFoundError extends errorWith('NOT_FOUND') {}

/** Someone else changed it meanwhile: read again and retry. */
export class ConflictError extends errorWith('CONFLICT') {}

/** The caller passed something that cannot be taken; nothing was written. */
export class InvalidInputError extends errorWith('INVALID_INPUT') {}

/** Stored bytes do not match their digest or their form; they are never served. */
export class CorruptError extends errorWith('CORRUPT') {}

/** The storage, format version or class cannot do this. */
export class UnsupportedError extends errorWith('UNSUPPORTED') {}

/** A frozen replay met an input that differs from the recording. */
export class ReplayMismatchError extends errorWith('REPLAY_MISMATCH') {}

/** The disk, file or database failed; the cause holds the driver's own error. */
export class StorageError extends errorWith('STORAGE') {}

/** The storage, manager or session was closed before this call. */
export class ClosedError extends errorWith('CLOSED') {}

/** A model's provider refused, failed or could not be read; what was recorded before stands, so the run can be resumed. */
export class ModelError extends errorWith('MODEL') {}

/** What was asked for is encrypted, and its key is not at hand (`details.reason: 'missing'`) or was thrown away (`'removed'`). */
export class KeyError extends errorWith('KEY') {}

/** Whether a value is an error of this package, also when two copies of it are loaded. */
export function hasErrorCode(error: unknown, code: ErrorCode): boolean {
  return codeOf(error) === code;
}

/** The code of an error of this package, the system or a driver; undefined if it has none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Whether what was asked for is lost, which must not hold up the rest: it is damaged, or its key was thrown away. */
export function isLost(error: unknown): boolean {
  return isForgotten(error) || hasErrorCode(error, 'CORRUPT');
}

/** Whether what was asked for cannot be read because its key was thrown away, which is no damage. */
export function isForgotten(error: unknown): boolean {
  return hasErrorCode(error, 'KEY') && (error as SavestateError).details?.reason === 'removed';
}

/** What went wrong, in words, whatever was thrown. */
export function messageOf(error: unknown): string {
  if (error === undefined || error === null) return `${error} was thrown, which is no error`;
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether a storage could not learn if a commit was stored, so that a look may tell: the connection died before the answer came. After a
 * failed sync (`reason: 'disk'`) a look tells nothing: what can be read may not be on the disk.
 */
export function isOutcomeUnknown(error: unknown): boolean {
  if (!hasErrorCode(error, 'STORAGE')) return false;
  const { outcome, reason } = (error as SavestateError).details ?? {};
  return outcome === 'unknown' && reason !== 'disk';
}

/** The details of an error after which nobody knows what reached the disk. */
export const UNSYNCED = { outcome: 'unknown', reason: 'disk' } as const;

/** A message of damage without its advice to run verify: for verify itself, and for what is not in a storage. */
export function withoutAdvice(message: string): string {
  return message.replace(/ Run verify[^.;]*\./, '');
}

/** Damage of what somebody gave, not of what is stored: it is theirs to mend. Other errors stay as they are. */
export function toInputError(error: unknown, outcome: string): unknown {
  if (!hasErrorCode(error, 'CORRUPT')) return error;
  const { message, details } = error as SavestateError;
  return new InvalidInputError(`${outcome} ${withoutAdvice(message)}`, { cause: error, details });
}
