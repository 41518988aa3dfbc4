import { inspect } from 'node:util';

/** What errors of HTTP clients and of the AI SDK may carry. */
export type ForeignError = Error & {
  readonly code?: unknown;
  readonly statusCode?: unknown;
  readonly responseBody?: unknown;
};

/** Enough to see what a server meant, too little to fill a log. */
const MAX_CHARS = 2000;
const MAX_CAUSES = 4;

/**
 * A copy that can be stored: what was said and where, without the request's body, headers and keys. Foreign errors carry all of
 * these.
 */
export function plainError(error: unknown, secrets: readonly string[], depth = 1): ForeignError {
  const source: ForeignError = error instanceof Error ? error : new Error(describeValue(error));
  const { name, code, statusCode, responseBody } = source;
  const hide = (text: string) => hideSecrets(text, secrets).slice(0, MAX_CHARS);
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

function hideSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((hidden, secret) => hidden.replaceAll(secret, '[secret apiKey]'), text);
}
