import { isErrorCode } from '../../core/error-outcomes.ts';
import {
  codeOf,
  InvalidInputError,
  messageOf,
  NotFoundError,
  SavestateError,
  StorageError,
  UnsupportedError,
} from '../../core/errors.ts';
import { type Client, createClient, ResponseError } from '../../server/client/client.ts';
import { aboutReply, createRemoteStorage } from '../../server/client/remote-storage.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import type { RemoteAddress } from './address.ts';

/** Opens the storage of a server. */
export async function openRemote(address: RemoteAddress): Promise<ChunkStorage> {
  const { url } = address;
  const client = connect(address);
  const about = await client.request('GET /v1/server').catch((error: unknown) => {
    throw error instanceof SavestateError && error.code === 'STORAGE' ? noServer(url, error) : error;
  });
  if (typeof about?.kind !== 'string') throw noServer(url, 'what answers there is something else');
  if (about.offers !== undefined) {
    if (aboutReply.safeParse(about).success) return createRemoteStorage(client, about);
    throw noServer(url, 'what answers there describes itself in another way');
  }
  throw new UnsupportedError(
    `The server at ${url} has version ${about.version}, which takes no commands. Use the same version here and there.`,
  );
}

/** What a server may send, and how long it may take: in storage routes as much and as long as it allows itself, and more. */
const BOUNDS = {
  storage: { maxBytes: 256 * 1024 ** 2, waitMs: 660_000 },
  other: { maxBytes: 16 * 1024 ** 2, waitMs: 60_000 },
};

/**
 * A client of this server whose errors are ours: a command ends as it would with the storage at hand. A reply that is too large, or does
 * not come, is an error, too: what is at the address may be anything.
 */
export function connect({ url, token, withheldFrom }: RemoteAddress, bounds = BOUNDS): Client {
  if (withheldFrom !== undefined)
    throw new InvalidInputError(
      `${withheldFrom} names the server ${url}. SAVESTATE_TOKEN is sent only to a server that you name yourself: if you trust this one, add --remote ${url}, set SAVESTATE_STORAGE to it, or name its token with --token-file.`,
      { details: { path: withheldFrom, storage: url } },
    );
  const ask = (request: Request) =>
    fetchBounded(request, bounds[request.url.includes('/v1/storage/') ? 'storage' : 'other']);
  const client = createClient(url, { fetch: ask, ...(token !== undefined && { token }) });
  const request = async (...given: Parameters<Client['request']>) => {
    try {
      return await client.request(...given);
    } catch (error) {
      throw toOwnError(error, { url, isChange: given[0] === 'POST /v1/storage/change' });
    }
  };
  return { ...client, request: request as Client['request'] };
}

async function fetchBounded(request: Request, { maxBytes, waitMs }: (typeof BOUNDS)['other']): Promise<Response> {
  const deadline = AbortSignal.timeout(waitMs);
  const response = await fetch(request, { signal: AbortSignal.any([request.signal, deadline]) });
  let left = maxBytes;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      left -= part.length;
      if (left < 0) throw new TypeError(`it sent more than ${maxBytes} bytes`);
      controller.enqueue(part);
    },
  });
  return new Response(response.body?.pipeThrough(counted) ?? null, response);
}

type Asked = { readonly url: string; readonly isChange: boolean };

function toOwnError(error: unknown, asked: Asked): unknown {
  if (error instanceof ResponseError) return toRefusal(error, asked);
  if (error instanceof SyntaxError)
    return failure(`The server at ${asked.url} sent no JSON: ${error.message}.`, asked, error);
  if (error instanceof Error && error.name === 'TimeoutError')
    return failure(`The server at ${asked.url} did not reply in time.`, asked, error);
  if (!(error instanceof TypeError)) return error; // stopped by a person
  return failure(`The server at ${asked.url} cannot be reached: ${describeFailure(error)}`, asked, error);
}

function toRefusal(error: ResponseError, asked: Asked): Error {
  const { code, status, message, details } = error;
  if (status === 401)
    return new InvalidInputError(
      `The server at ${asked.url} does not know this token, or needs one. Set SAVESTATE_TOKEN, name a file with --token-file, or give the address that the server printed at its start.`,
    );
  if (code === 'READ_ONLY') return new UnsupportedError(message, { details });
  if (code === 'ACCESS_DENIED') return new InvalidInputError(message, { details });
  if (code !== 'STORAGE' && isErrorCode(code)) return new SavestateError(code, message, { details });
  return failure(`The server at ${asked.url} failed: ${message}`, asked, error);
}

/** Whoever changed something and got no answer must look whether it was done. */
function failure(message: string, { isChange }: Asked, cause: Error): StorageError {
  const known = cause instanceof ResponseError ? cause.details : {};
  return new StorageError(message, { cause, details: { ...known, ...(isChange && { outcome: 'unknown' }) } });
}

/** What is behind "fetch failed". */
function describeFailure({ cause, message }: TypeError): string {
  const found = cause === undefined ? message : messageOf(cause);
  const code = codeOf(cause) ?? '';
  if (/CERT|SIGNATURE|ISSUER/.test(code)) return `${found}. Name who signed its certificate in NODE_EXTRA_CA_CERTS.`;
  if (/SSL|TLS/.test(code)) return `${found}. It may speak no TLS: write http:// then.`;
  if (/HPE_|UND_ERR_SOCKET|ECONNRESET/.test(code)) return `${found}. It may speak TLS: write https:// then.`;
  return `${found}.`;
}

function noServer(url: string, why: unknown): NotFoundError {
  const reason = why instanceof Error ? why.message : `There is no Savestate server at ${url}: ${why}.`;
  return new NotFoundError(`${reason} Start one with "savestate serve", or name another.`, {
    details: { kind: 'storage', storage: url },
  });
}
