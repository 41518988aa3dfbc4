import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { HttpError } from './problem.ts';

/** Deeper bodies would end the call stack of whoever walks them. */
const MAX_DEPTH = 1000;
const BRACKETS: Readonly<Record<string, number>> = { '[': 1, '{': 1, ']': -1, '}': -1 };

/** Whether brackets outside of strings are nested deeper; reads the text once. */
function isNestedBeyond(text: string, maxDepth: number): boolean {
  let [depth, isInString] = [0, false];
  for (let at = 0; at < text.length && depth <= maxDepth; at++) {
    const char = text[at];
    if (isInString && char === '\\') at++;
    else if (char === '"') isInString = !isInString;
    else if (!isInString) depth += BRACKETS[char ?? ''] ?? 0;
  }
  return depth > maxDepth;
}

/** How much is read of a body, and for how long. */
export type BodyLimits = { readonly maxBytes: number; readonly signal: AbortSignal };

/** The bytes of a body; throws as soon as there are more than the server takes, or its time is over. */
export async function* readBody(request: Request, { maxBytes, signal }: BodyLimits): AsyncGenerator<Uint8Array> {
  const tooLarge = () =>
    new HttpError(413, 'INVALID_INPUT', {
      message: `The body is larger than ${maxBytes} bytes, which is all this server takes.`,
    });
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge();
  let size = 0;
  for await (const bytes of request.body?.pipeThrough(new TransformStream<Uint8Array>(), { signal }) ?? []) {
    size += bytes.byteLength;
    if (size > maxBytes) throw tooLarge();
    yield bytes;
  }
}

/** A body that must be JSON, and say so: pages of other sites cannot send that without asking first. */
export async function readJson(request: Request, limits: BodyLimits): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/json\b/.test(type))
    throw new InvalidInputError(`The body must be application/json; found ${type === '' ? 'no content-type' : type}.`);
  const parts: Uint8Array[] = [];
  for await (const bytes of readBody(request, limits)) parts.push(bytes);
  const text = Buffer.concat(parts).toString('utf8');
  if (isNestedBeyond(text, MAX_DEPTH))
    throw new InvalidInputError(`The body is nested deeper than ${MAX_DEPTH} levels, which no state is.`);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InvalidInputError(`The body is not JSON: ${messageOf(cause)}.`, { cause });
  }
}
