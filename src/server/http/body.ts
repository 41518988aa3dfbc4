import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { HttpError } from './problem.ts';

/** The bytes of a body; throws as soon as there are more than the server takes. */
export async function* readBody(request: Request, maxBytes: number): AsyncGenerator<Uint8Array> {
  const tooLarge = () =>
    new HttpError(413, 'INVALID_INPUT', {
      message: `The body is larger than ${maxBytes} bytes, which is all this server takes.`,
    });
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge();
  let size = 0;
  for await (const bytes of request.body ?? []) {
    size += bytes.byteLength;
    if (size > maxBytes) throw tooLarge();
    yield bytes;
  }
}

/** A body that must be JSON, and say so: pages of other sites cannot send that without asking first. */
export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/json\b/.test(type))
    throw new InvalidInputError(`The body must be application/json; found ${type === '' ? 'no content-type' : type}.`);
  const parts: Uint8Array[] = [];
  for await (const bytes of readBody(request, maxBytes)) parts.push(bytes);
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8'));
  } catch (cause) {
    throw new InvalidInputError(`The body is not JSON: ${messageOf(cause)}.`, { cause });
  }
}
