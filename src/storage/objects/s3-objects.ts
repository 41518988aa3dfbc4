import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf, StorageError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, type OptionChecks } from '../../core/options.ts';
import { backoff } from '../../core/time/backoff.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';
import { type S3Credentials, signRequest } from './signature.ts';

/** Where the bucket is, and what opens it. */
export type S3Options = {
  /** `https://s3.<region>.amazonaws.com`, or that of another server. */
  readonly endpoint: string;
  readonly bucket: string;
  /** What all names begin with, such as `agents/`: each storage needs one of its own. */
  readonly prefix?: string | undefined;
  /** Default `us-east-1`, which most servers other than Amazon's take. */
  readonly region?: string | undefined;
  /** Or a function that returns them, for temporary ones; called for each request. */
  readonly credentials: S3Credentials | (() => S3Credentials | Promise<S3Credentials>);
};

const CREDENTIALS: OptionChecks<S3Credentials> = {
  accessKeyId: { required: is.filledString },
  secretAccessKey: { required: is.filledString },
  sessionToken: is.string,
};
const OPTIONS: OptionChecks<S3Options> = {
  endpoint: {
    required: is.accepts(
      'the address of a server, such as https://s3.eu-central-1.amazonaws.com',
      (value) => typeof value === 'string' && /^https?:\/\/[^/?#@]+\/?$/.test(value) && URL.canParse(value),
    ),
  },
  bucket: {
    required: is.accepts('the name of a bucket', (value) => typeof value === 'string' && /^[\w.-]+$/.test(value)),
  },
  prefix: is.accepts(
    'a path of letters, digits, "_", "-" and "." that ends with /',
    (value) => typeof value === 'string' && /^([\w.-]+\/)*$/.test(value),
  ),
  region: is.filledString,
  credentials: {
    required: is.either(
      '{ accessKeyId, secretAccessKey }, or a function that returns it',
      is.callback,
      is.options(CREDENTIALS),
    ),
  },
};

const ATTEMPTS = 5;
const PAUSES = { firstMs: 100, maxMs: 2_000 };
const TIMEOUT_MS = 60_000;
/** Besides failures of the server: too slow, another conditional request of the same name under way (perhaps our own that timed out here), too many. */
const PASSING: readonly number[] = [408, 409, 429];

type Request = {
  readonly name?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The statuses that are an answer; others are an error. */
  readonly statuses: readonly number[];
};

/** Objects in a bucket of Amazon S3, or of a server that speaks as it does. */
export class S3Objects implements ObjectStore {
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #region: string;
  readonly #credentials: S3Options['credentials'];

  constructor(given: S3Options) {
    checkOptions(given, OPTIONS, 'S3Objects');
    this.#bucket = `${given.endpoint.replace(/\/$/, '')}/${given.bucket}`;
    this.#prefix = given.prefix ?? '';
    this.#region = given.region ?? 'us-east-1';
    this.#credentials = given.credentials;
  }

  /** Never overwrites. A name that is there was put by an attempt whose reply was lost: names are used once. */
  async put(name: string, body: Uint8Array): Promise<void> {
    const { status } = await this.#send('PUT', { name, body, headers: { 'if-none-match': '*' }, statuses: [200, 412] });
    if (status === 412 && (await this.get(name, { from: body.length - 1, to: body.length })) === undefined)
      throw new StorageError(
        `The server says that there is an object ${name}, and has none. Check what is in between.`,
      );
  }

  async replace(name: string, body: Uint8Array): Promise<void> {
    await this.#send('PUT', { name, body, statuses: [200] });
  }

  async get(
    name: string,
    { from, to }: { readonly from: number; readonly to: number },
  ): Promise<Uint8Array | undefined> {
    const headers = { range: `bytes=${from}-${to - 1}` };
    const response = await this.#send('GET', { name, headers, statuses: [200, 206, 404, 416] });
    if (response.status === 404 || response.status === 416) return undefined;
    const bytes = response.status === 200 ? response.bytes.subarray(from, to) : response.bytes;
    return bytes.length === to - from ? bytes : undefined;
  }

  async delete(name: string): Promise<void> {
    await this.#send('DELETE', { name, statuses: [200, 204, 404] });
  }

  async *list(): AsyncGenerator<StoredObject> {
    const prefix = this.#prefix;
    for (let token: string | undefined; ; ) {
      const query = { 'list-type': '2', prefix, ...(token !== undefined && { 'continuation-token': token }) };
      const { bytes } = await this.#send('GET', { query, statuses: [200] });
      const page = new TextDecoder().decode(bytes);
      for (const [, entry = ''] of page.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const key = readTag(entry, 'Key');
        const modifiedMs = Date.parse(readTag(entry, 'LastModified'));
        yield { name: key.slice(prefix.length), bytes: Number(readTag(entry, 'Size')), modifiedMs };
      }
      token = readTag(page, 'NextContinuationToken') || undefined;
      if (token === undefined) return;
    }
  }

  async #send(method: string, request: Request): Promise<{ status: number; bytes: Uint8Array }> {
    const path = request.name === undefined ? '' : `/${this.#prefix}${request.name}`;
    const url = new URL(`${this.#bucket}${path}`);
    for (const [key, value] of Object.entries(request.query ?? {})) url.searchParams.set(key, value);
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#sendOnce(method, url, request);
      } catch (cause) {
        const isFinal = cause instanceof StorageError && cause.details.isFinal === true;
        if (isFinal || attempt === ATTEMPTS)
          throw new StorageError(`${method} ${url.href} failed: ${describeFailure(cause)}`, { cause });
      }
      await sleep(backoff(attempt, PAUSES));
    }
  }

  async #sendOnce(method: string, url: URL, { headers = {}, body, statuses }: Request) {
    const credentials = typeof this.#credentials === 'function' ? await this.#credentials() : this.#credentials;
    const signing = { region: this.#region, credentials, date: new Date() };
    const response = await fetch(url, {
      method,
      headers: signRequest({ method, url, headers, body }, signing),
      ...(body !== undefined && { body: body as Uint8Array<ArrayBuffer> }),
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const { status } = response;
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (statuses.includes(status)) return { status, bytes };
    const text = new TextDecoder().decode(bytes);
    const isFinal = status < 500 && !PASSING.includes(status);
    throw new StorageError(`status ${status}, ${readTag(text, 'Code') || 'no code'}. ${readTag(text, 'Message')}`, {
      details: { status, isFinal },
    });
  }
}

/** `fetch` says why it failed in its cause alone. */
function describeFailure(error: unknown): string {
  const reason = error instanceof Error ? error.cause : undefined;
  if (error instanceof StorageError || !(reason instanceof Error)) return messageOf(error);
  const code = 'code' in reason ? String(reason.code) : '';
  const why = reason.message.includes(code) ? reason.message : `${code} ${reason.message}`;
  return `${messageOf(error)} (${why.trim() || code}). Check the endpoint, and that the server runs and can be reached from here.`;
}

function readTag(xml: string, tag: string): string {
  const [, text = ''] = new RegExp(`<${tag}>(.*?)</${tag}>`, 's').exec(xml) ?? [];
  return text.replace(/&(amp|lt|gt|quot|apos);/g, (_, name: string) => ENTITIES[name] ?? '');
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
