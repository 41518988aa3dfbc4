import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { describeValue } from '../../core/options.ts';
import { HttpError } from './problem.ts';

/** Deeper bodies would end the call stack of whoever walks them. */
const MAX_DEPTH = 1000;

/** Throws if values are nested too deep or are too many, or a key comes twice; reads the text once, before anything is made of it. */
function checkShape(text: string, maxValues: number): void {
  const open: (Set<string> | undefined)[] = [];
  let [values, written] = [1, ''];
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === '"') {
      const end = endOfString(text, at);
      written = text.slice(at, end + 1);
      at = end;
    } else if (char === ':') checkKey(written, open.at(-1));
    else if (char === ',') values++;
    else nest(char, open);
    if (open.length > MAX_DEPTH || values > maxValues) throw tooMuch(open.length, maxValues);
  }
}

function nest(char: string, open: (Set<string> | undefined)[]): void {
  if (char === '{') open.push(new Set());
  else if (char === '[') open.push(undefined);
  else if (char === '}' || char === ']') open.pop();
}

/** Where the quote is that ends the string that begins here. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text.charAt(at) !== '"') at += text.charAt(at) === '\\' ? 2 : 1;
  return at;
}

/** Of a key that comes twice only one value would be read. */
function checkKey(written: string, known: Set<string> | undefined): void {
  const key = written.includes('\\') ? String(parseJson(written)) : written.slice(1, -1);
  if (known?.has(key) === true)
    throw new InvalidInputError(`The body has the key ${describeValue(key)} twice in one object. Give it once.`);
  known?.add(key);
}

function tooMuch(depth: number, maxValues: number): InvalidInputError {
  const advice = 'Send a patch of what changes, or make the edit with the library.';
  return new InvalidInputError(
    depth > MAX_DEPTH
      ? `The body is nested deeper than ${MAX_DEPTH} levels, which no state is.`
      : `The body has more than ${maxValues} values. ${advice}`,
  );
}

/** So much of a body that is too large is read and thrown away: who is still sending when the connection ends never sees the reply. */
const MAX_DISCARDED_BYTES = 64 * 1024 ** 2;

/** How much is read of a body, and for how long. */
export type BodyLimits = {
  readonly maxBytes: number;
  /** Of JSON; as many as fit, if absent. */
  readonly maxValues?: number | undefined;
  readonly signal: AbortSignal;
};

/** The bytes of a body; throws if there are more than the server takes, or its time is over. */
export async function* readBody(request: Request, { maxBytes, signal }: BodyLimits): AsyncGenerator<Uint8Array> {
  const declared = Number(request.headers.get('content-length') ?? 0);
  const wanted = declared > maxBytes ? 0 : maxBytes;
  const most = maxBytes + MAX_DISCARDED_BYTES;
  const body = declared > most ? undefined : request.body?.pipeThrough(new TransformStream<Uint8Array>(), { signal });
  let size = 0;
  for await (const bytes of body ?? []) {
    size += bytes.byteLength;
    if (size <= wanted) yield bytes;
    if (size > most) break;
  }
  if (Math.max(size, declared) > maxBytes)
    throw new HttpError(413, 'INVALID_INPUT', {
      message: `The body is larger than ${maxBytes} bytes, which is all this server takes.`,
    });
}

/** Throws if there is a body where none is taken: whoever sent it meant something by it. */
export function checkBodiless(key: string, { headers }: Request): void {
  if (Number(headers.get('content-length') ?? 0) > 0 || headers.has('transfer-encoding'))
    throw new InvalidInputError(`${key} takes no body. Leave it out; nothing was done.`);
}

/** A body that must be JSON, and say so: pages of other sites cannot send that without asking first. */
export async function readJson(request: Request, limits: BodyLimits): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/json\b/.test(type))
    throw new InvalidInputError(`The body must be application/json; found ${type === '' ? 'no content-type' : type}.`);
  const parts: Uint8Array[] = [];
  for await (const bytes of readBody(request, limits)) parts.push(bytes);
  const text = Buffer.concat(parts).toString('utf8');
  checkShape(text, limits.maxValues ?? Number.POSITIVE_INFINITY);
  return parseJson(text);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InvalidInputError(`The body is not JSON: ${messageOf(cause)}.`, { cause });
  }
}
