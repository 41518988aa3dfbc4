import { encodeSegment } from '../contract/segment.ts';
import type { Key, ReplyOf, RequestArguments, RequestOptions } from './types.ts';

/** How a client reaches its server. */
export type ClientOptions = {
  /** For scripts; browsers have a cookie. */
  readonly token?: string;
  /** In place of the global one: for tests, or a handler in this process. */
  readonly fetch?: (request: Request) => Response | Promise<Response>;
};

/** An error that the server returned. `code` is that of the error on the server. */
export class ResponseError extends Error {
  readonly code: string;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;

  constructor({ code, status, detail, details }: Problem) {
    super(detail);
    this.name = 'ResponseError';
    this.code = code;
    this.status = status;
    this.details = details;
  }
}

type Problem = Pick<ResponseError, 'code' | 'status' | 'details'> & { readonly detail: string };

/** A reply with its ETag, which changes take as `ifMatch`. */
export type Tagged<Reply> = { readonly reply: Reply; readonly etag: string | undefined };

/** Which events are wanted. */
export type EventsRequest = {
  readonly session?: string;
  /** The id of the last event that came. */
  readonly after?: string;
  readonly signal?: AbortSignal;
};

/** Asks a server by the keys of its routes. */
export type Client = {
  /** Throws a ResponseError if the server refuses or fails. */
  request<K extends Key>(key: K, ...request: RequestArguments<K>): Promise<ReplyOf<K>>;
  /** The same, with the ETag. */
  open<K extends Key>(key: K, ...request: RequestArguments<K>): Promise<Tagged<ReplyOf<K>>>;
  /** What is saved from now on, until the connection ends; go on with `after`. */
  events(request?: EventsRequest): AsyncGenerator<StreamEvent>;
  /** Where a route is, for links and for EventSource. */
  urlOf<K extends Key>(key: K, ...request: RequestArguments<K>): string;
};

type AnyRequest = RequestOptions & {
  readonly params?: Readonly<Record<string, string | number>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
};

/** Makes a client; runs in browsers too. */
export function createClient(baseUrl: string, options: ClientOptions = {}): Client {
  const send = async (key: string, request: AnyRequest = {}): Promise<Response> => {
    const { fetch: ask = (sent: Request) => fetch(sent) } = options;
    const response = await ask(new Request(urlOf(baseUrl, key, request), initOf(key, request, options)));
    if (response.ok) return response;
    throw await toError(response);
  };
  const open = async (key: Key, request?: AnyRequest) => {
    const response = await send(key, request);
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    const reply: unknown = isJson ? await response.json() : response;
    return { reply, etag: response.headers.get('etag') ?? undefined };
  };
  return {
    open: open as Client['open'],
    request: (async (key: Key, request?: AnyRequest) => (await open(key, request)).reply) as Client['request'],
    urlOf: ((key: Key, request?: AnyRequest) => urlOf(baseUrl, key, request)) as Client['urlOf'],
    events: async function* ({ signal, ...query } = {}) {
      yield* readEvents(await send('GET /v1/events', { query, ...(signal !== undefined && { signal }) }));
    },
  };
}

function urlOf(baseUrl: string, key: string, { params = {}, query = {} }: AnyRequest = {}): string {
  const path = key.slice(key.indexOf(' ') + 1).replaceAll(/\{(\w+)\}/g, (_, field: string) => {
    if (params[field] === undefined) throw new TypeError(`${key} needs params.${field}.`);
    return encodeSegment(String(params[field]));
  });
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(
    given.map(([field, value]): [string, string] => [field, String(value)]),
  ).toString();
  return `${baseUrl.replace(/\/$/, '')}${path}${search === '' ? '' : `?${search}`}`;
}

function initOf(key: string, { body, signal, ifMatch, idempotencyKey }: AnyRequest, { token }: ClientOptions) {
  const isStream = key === 'POST /v1/import';
  const headers: Record<string, string> = {
    ...(body !== undefined && { 'content-type': isStream ? 'application/x-ndjson' : 'application/json' }),
    ...(ifMatch !== undefined && { 'if-match': ifMatch }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
  return {
    method: key.slice(0, key.indexOf(' ')),
    headers,
    ...(body !== undefined && {
      body: isStream ? (body as string | ReadableStream<Uint8Array>) : JSON.stringify(body),
    }),
    ...(isStream && { duplex: 'half' as const }),
    ...(signal !== undefined && { signal }),
  };
}

/** An error, whatever came back: a proxy in between does not know our form. */
async function toError(response: Response): Promise<ResponseError> {
  const { status } = response;
  const problem = ((await response.json().catch(() => undefined)) ?? {}) as Partial<Record<keyof Problem, unknown>>;
  const { code, detail, details } = problem;
  return new ResponseError({
    code: typeof code === 'string' ? code : 'STORAGE',
    status,
    detail: typeof detail === 'string' ? detail : `The server answered with status ${status}.`,
    details: typeof details === 'object' ? { ...details } : {},
  });
}

/** One event of the stream: ids only; whoever wants more asks for it. */
export type StreamEvent = {
  /** Where to go on from after a lost connection. */
  readonly id: string;
  /** `ready`: from here on everything is told. `checkpoint`: saved. `deleted`: gone. `refs`: branches, tags or pins of a session changed. `run`: a run from the page began or stopped. `resync`: some were missed, so read again. */
  readonly event: 'ready' | 'checkpoint' | 'deleted' | 'refs' | 'run' | 'resync';
  readonly sessionId?: string;
  readonly checkpointId?: string;
  readonly branch?: string;
};

/** Reads server-sent events until the connection ends. */
export async function* readEvents(response: Response): AsyncGenerator<StreamEvent> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = `${rest}${value}`.split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) yield* parseBlock(block);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have ended with an error that was thrown already
  }
}

function parseBlock(block: string): StreamEvent[] {
  const fields = new Map(
    block.split('\n').map((line): [string, string] => {
      const at = line.indexOf(':');
      return [line.slice(0, at), line.slice(at + 1).trimStart()];
    }),
  );
  const [event, data] = [fields.get('event'), fields.get('data')];
  if (event === undefined || data === undefined) return [];
  return [{ id: fields.get('id') ?? '', event: event as StreamEvent['event'], ...(JSON.parse(data) as object) }];
}
