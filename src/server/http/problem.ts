import { ERROR_OUTCOMES, isErrorCode } from '../../core/error-outcomes.ts';
import { type ErrorDetails, messageOf } from '../../core/errors.ts';
import { withoutTokens } from '../../core/secret/scan/redaction-scan.ts';

/** Something that only happens over HTTP: no access, too late, too large. */
export class HttpError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: ErrorDetails;

  constructor(status: number, code: string, more: { readonly message: string; readonly details?: ErrorDetails }) {
    super(more.message);
    this.name = 'HttpError';
    this.status = status;
    this.code = code;
    this.details = more.details ?? {};
  }
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'The request cannot be taken',
  401: 'A token is needed',
  403: 'This is not allowed',
  404: 'Not found',
  409: 'It conflicts with what is there',
  412: 'It changed meanwhile',
  413: 'The request is too large',
  421: 'This server does not answer for that host',
  500: 'Stored data is damaged, or the server failed',
  501: 'This is not supported',
  502: 'A model failed',
  503: 'The storage cannot be reached',
  504: 'It took too long',
};

/**
 * An error as `application/problem+json` (RFC 9457), with our code. What is not an error of ours tells nothing of the inside, and none
 * repeats a secret that was sent, which logs on the way would keep.
 */
export function toProblem(error: unknown, hide = withoutTokens): Response {
  const { status, code, detail, details } = describe(error);
  const title = TITLES[status] ?? 'The request failed';
  const body = { type: `urn:savestate:${code}`, title, status, code, detail, details };
  const json = JSON.stringify(body, (_, value: unknown) => (typeof value === 'string' ? hide(value) : value));
  return new Response(json, {
    status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  });
}

function describe(error: unknown) {
  if (error instanceof HttpError) {
    const { status, code, message: detail, details } = error;
    return { status, code, detail, details };
  }
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (!isErrorCode(code))
    return { status: 500, code: 'FAULT', detail: 'The server failed. Its log says why.', details: {} };
  const details = (error as { readonly details?: ErrorDetails }).details ?? {};
  return { status: ERROR_OUTCOMES[code].httpStatus, code, detail: messageOf(error), details };
}
