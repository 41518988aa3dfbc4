import {
  ConflictError,
  CorruptError,
  codeOf,
  InvalidInputError,
  messageOf,
  SavestateError,
  StorageError,
} from '../../core/errors.ts';

/** What the network says when a connection cannot be made or has ended. */
const NETWORK_CODES = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH EAI_AGAIN ENOTFOUND'.split(' '),
);

/** What the server says when trying again may help: shutting down, starting, too many clients, a standby, a lost race. */
const TRANSIENT_STATES = new Set('57P01 57P02 57P03 57P05 53300 25006 40001 40P01 40003 55P03 57014'.split(' '));

/** How the client says that a connection ended or did not answer. These errors carry no code. */
const CONNECTION_MESSAGES =
  /Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|not queryable|Client was closed/;

const SQLSTATE = /^[0-9A-Z]{5}$/;

/** The server's own verdict; undefined if the error came from the network or the client. */
export function sqlState(error: unknown): string | undefined {
  const code = codeOf(error);
  return code !== undefined && SQLSTATE.test(code) && !NETWORK_CODES.has(code) ? code : undefined;
}

/** Whether the same call may succeed on another connection or a little later. */
export function isTransient(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) return TRANSIENT_STATES.has(state) || state.startsWith('08');
  return isConnectionLoss(error);
}

/** Whether the connection itself failed, so that nobody said how the call ended. */
export function isConnectionLoss(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isConnectionLoss);
  const code = codeOf(error);
  if (code !== undefined && NETWORK_CODES.has(code)) return true;
  return error instanceof Error && sqlState(error) === undefined && CONNECTION_MESSAGES.test(error.message);
}

/** Whether the server may have done what it was asked although it did not say so. */
export function isOutcomeUnknown(error: unknown): boolean {
  const state = sqlState(error);
  if (state === undefined) return true;
  return state.startsWith('57P') || state.startsWith('08') || state === '40003';
}

type Context = { readonly place: string; readonly isOutcomeUnknown?: boolean };

/** Whether an error of this package stands for a verdict of the server, which it would give again. */
export function isRefusal(error: unknown): boolean {
  return error instanceof SavestateError && sqlState(error.cause) !== undefined && !isTransient(error.cause);
}

/** Whether an error of this package says that what was to be stored has a key that is there already. */
export function isTaken(error: unknown): boolean {
  return error instanceof SavestateError && sqlState(error.cause) === '23505';
}

/** Turns whatever the client threw into an error of this package; those of this package stay as they are. */
export function toSavestateError(
  error: unknown,
  { place, isOutcomeUnknown: isUnknown = false }: Context,
): SavestateError {
  if (error instanceof SavestateError) return error;
  const state = sqlState(error);
  const message = messageOf(error);
  const outcome = isUnknown ? { outcome: 'unknown' } : {};
  const options = { cause: error, details: { ...(state !== undefined && { sqlState: state }), ...outcome } };
  if (isUnknown) {
    return new StorageError(
      `The connection to ${place} was lost before it answered, so it is not known whether this was stored (${message}). Save again with the same idempotency key, or read the session to see.`,
      options,
    );
  }
  return toKnownError(state, { place, message, options });
}

type Known = {
  readonly place: string;
  readonly message: string;
  readonly options: { readonly cause: unknown; readonly details: Readonly<Record<string, unknown>> };
};

function toKnownError(state: string | undefined, { place, message, options }: Known): SavestateError {
  switch (state) {
    case undefined:
      return new StorageError(`${place} cannot be reached (${message}). Nothing of this call was stored.`, options);
    case '42704':
    case '23514':
      return new InvalidInputError(
        `${place} refused the tenant (${message}). Every call needs a tenant that is not empty.`,
        options,
      );
    case '54000':
      return new InvalidInputError(
        `${place} refused the names: together they are too long for an index (${message}).`,
        options,
      );
    case '23505':
      return new ConflictError(
        `${place} refused a row that exists already (${message}). Read again and retry.`,
        options,
      );
    case 'XX001':
    case 'XX002':
      return new CorruptError(`${place} reports damaged data (${message}). Restore the server from a backup.`, options);
    default:
      return new StorageError(`${place} ${describe(state)} (${message}). Nothing of this call was stored.`, options);
  }
}

function describe(state: string): string {
  if (state === '53100') return 'has no disk space left';
  if (state === '42501') return 'does not allow this to the role it was reached as';
  if (state.startsWith('28')) return 'refused the user or its password';
  if (state === '3D000') return 'has no such database';
  if (state === '25006') return 'is a standby that takes no writes';
  if (state === '53300') return 'has no connection left';
  return `failed with SQL state ${state}`;
}
