import { inspect } from 'node:util';
import {
  hasErrorCode,
  InvalidInputError,
  ModelError,
  type SavestateError,
  UnsupportedError,
} from '../../core/errors.ts';

/** Why a model did not answer: the server said no, took too long, could not be reached, or sent what nobody can read. */
export type FailureReason = 'status' | 'timeout' | 'connection' | 'unreadable' | 'other';

/** What a `ModelError` says about itself in `details`. */
export type FailureDetails = {
  readonly model: string;
  readonly reason: FailureReason;
  /** Whether asking again may help. */
  readonly retryable: boolean;
  readonly attempts: number;
  readonly status?: number;
  /** How long the server wants to be left alone. */
  readonly retryAfterMs?: number;
};

/** Where a failure happened, and what must not be told about it. */
export type FailurePlace = {
  readonly model: string;
  /** Keys in use, which a server may echo. */
  readonly secrets: readonly string[];
  readonly now: () => number;
};

/** The caller's doing, not the provider's: asking again cannot help, and nothing was sent. */
const CALLERS_FAULT = new Set([
  'AI_InvalidPromptError',
  'AI_InvalidArgumentError',
  'AI_InvalidDataContentError',
  'AI_InvalidMessageRoleError',
  'AI_MessageConversionError',
  'AI_MissingToolResultsError',
]);

const UNREADABLE = new Set([
  'AI_JSONParseError',
  'AI_TypeValidationError',
  'AI_InvalidResponseDataError',
  'AI_EmptyResponseBodyError',
  'AI_NoContentGeneratedError',
]);

/** Busy, in conflict, too early, or broken on the server's side. */
const RETRYABLE_STATUS = new Set([408, 409, 425, 429]);

/** Node's names for connections that could not be made or were lost. */
const LOST_CONNECTION = /^(?:E(?:CONN|PIPE|HOST|NET|AI_|TIMEDOUT|NOTFOUND)|UND_ERR_|ENOTFOUND)/;

const MAX_SAID_CHARS = 300;

/** Turns whatever a provider's package threw into an error of ours that can be stored, without keys in it. */
export function describeFailure(error: unknown, place: FailurePlace): SavestateError {
  if (hasErrorCode(error, 'UNSUPPORTED') || hasErrorCode(error, 'INVALID_INPUT')) return error as SavestateError;
  if (hasErrorCode(error, 'MODEL')) return withDetails(error as ModelError, { model: place.model, attempts: 1 });
  const cause = plainError(error, place.secrets);
  if (CALLERS_FAULT.has(cause.name))
    return new InvalidInputError(`The request to ${place.model} cannot be sent: ${cause.message}`, { cause });
  if (cause.name === 'AI_UnsupportedFunctionalityError')
    return new UnsupportedError(`${place.model} cannot do this: ${cause.message}`, { cause });
  const details: FailureDetails = { model: place.model, ...judge(cause, error, place), attempts: 1 };
  const [firstLine = ''] = cause.message.split('\n', 1); // packages put whole documents into their messages
  const said = `${sayWhat(details)}${firstLine.slice(0, MAX_SAID_CHARS).replace(/[\s.]*$/, '.')}`;
  return new ModelError(`${place.model} did not answer: ${said}${adviseOn(details)}`, { details, cause });
}

/** Whether a failure is a provider's, and asking again may help. */
export function isRetryable(error: unknown): error is ModelError {
  return hasErrorCode(error, 'MODEL') && (error as ModelError).details.retryable === true;
}

/** The same error with more said about it. */
export function withDetails(error: ModelError, details: Partial<FailureDetails>): ModelError {
  return new ModelError(error.message, { details: { ...error.details, ...details }, cause: error.cause });
}

type Judgement = Omit<FailureDetails, 'model' | 'attempts'>;

function judge(cause: ForeignError, error: unknown, { now }: FailurePlace): Judgement {
  if (typeof cause.statusCode === 'number') return judgeStatus(cause, cause.statusCode, readRetryAfter(error, now));
  if (UNREADABLE.has(cause.name)) return { reason: 'unreadable', retryable: true };
  if (isLostConnection(cause)) return { reason: 'connection', retryable: true };
  // What a server says in the middle of a stream: it had taken the request, so the trouble is its own.
  if (!(error instanceof Error)) return { reason: 'other', retryable: true };
  // A provider's package that trips over what it got: a reply without choices, say.
  if (cause.name === 'TypeError' && cause.cause === undefined) return { reason: 'unreadable', retryable: true };
  return { reason: 'other', retryable: false };
}

function judgeStatus(cause: ForeignError, status: number, retryAfterMs: number | undefined): Judgement {
  if (status < 300) return { reason: isLostConnection(cause) ? 'connection' : 'unreadable', retryable: true, status };
  // OpenAI says 429 both to who is too fast and to who has no credit left; waiting helps only the first.
  const isOutOfCredit = String(cause.responseBody).includes('insufficient_quota');
  return {
    reason: 'status',
    retryable: (RETRYABLE_STATUS.has(status) || status >= 500) && !isOutOfCredit,
    status,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

function isLostConnection(error: ForeignError): boolean {
  if (typeof error.code === 'string' && LOST_CONNECTION.test(error.code)) return true;
  if (/^(?:fetch failed|terminated|Cannot connect to API)/i.test(error.message)) return true;
  return error.cause instanceof Error && isLostConnection(error.cause);
}

function sayWhat({ reason, status }: FailureDetails): string {
  switch (reason) {
    case 'status':
      return `status ${status}: `;
    case 'unreadable':
      return 'its reply cannot be read: ';
    case 'connection':
      return 'the connection failed: ';
    default:
      return '';
  }
}

function adviseOn({ status, retryable }: FailureDetails): string {
  if (status === 401 || status === 403) return ' Check the key and what it may be used for.';
  if (status !== undefined && status >= 300 && status < 400)
    return ' It redirects elsewhere: name that address as the base URL if you trust it.';
  if (status === 404) return ' Check the name of the model and the base URL.';
  return retryable ? ' Try again later.' : '';
}

/** `retry-after-ms`, or `retry-after` in seconds or as a date. */
function readRetryAfter(error: unknown, now: () => number): number | undefined {
  const headers = (error as { readonly responseHeaders?: Record<string, string | undefined> }).responseHeaders ?? {};
  const ms = parseDelay(headers['retry-after-ms']);
  if (ms !== undefined) return ms;
  const text = headers['retry-after'];
  const seconds = parseDelay(text);
  if (seconds !== undefined) return seconds * 1000;
  const at = /[a-z]{3}/i.test(text ?? '') ? Date.parse(text ?? '') : Number.NaN; // `-1` would pass for a year
  return Number.isNaN(at) ? undefined : Math.max(0, at - now());
}

function parseDelay(text: string | undefined): number | undefined {
  const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** What errors of HTTP clients and of the AI SDK may carry. */
type ForeignError = Error & {
  readonly code?: unknown;
  readonly statusCode?: unknown;
  readonly responseBody?: unknown;
};

/** Enough to see what a server meant, too little to fill a log. */
const MAX_KEPT_CHARS = 2000;
const MAX_CAUSES = 4;

/**
 * A copy that can be stored: what was said and where, without the request's body, headers and keys. Foreign errors carry all of
 * these.
 */
function plainError(error: unknown, secrets: readonly string[], depth = 1): ForeignError {
  const source: ForeignError = error instanceof Error ? error : new Error(describeValue(error));
  const { name, code, statusCode, responseBody } = source;
  const hide = (text: string) =>
    secrets.reduce((hidden, secret) => hidden.replaceAll(secret, '[secret apiKey]'), text).slice(0, MAX_KEPT_CHARS);
  const cause =
    source.cause instanceof Error && depth < MAX_CAUSES ? plainError(source.cause, secrets, depth + 1) : undefined;
  const plain = new Error(hide(source.message), cause === undefined ? undefined : { cause });
  Object.defineProperty(plain, 'name', { value: name, enumerable: false });
  Object.defineProperty(plain, 'stack', { value: hide(source.stack ?? ''), enumerable: false });
  return Object.assign(plain, {
    ...(typeof code === 'string' && { code }),
    ...(typeof statusCode === 'number' && { statusCode }),
    ...(typeof responseBody === 'string' && { responseBody: hide(responseBody) }),
  });
}

/** Errors in streams are often plain objects. */
function describeValue(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'message' in value) return String(value.message);
  return typeof value === 'string' ? value : inspect(value);
}
