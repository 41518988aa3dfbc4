import type { Context } from 'hono';
import { InvalidInputError } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { Breather } from '../../storage/breather.ts';
import type { Watch } from '../../view/history.ts';
import type { Route } from '../contract/route.ts';
import { decodeSegment } from '../contract/segment.ts';
import type { Handlers, ServerParts } from '../handlers/call.ts';
import { CHANGE_HANDLERS } from '../handlers/change-handlers.ts';
import { HISTORY_HANDLERS } from '../handlers/history-handlers.ts';
import { KEEP_HANDLERS } from '../handlers/keep-handlers.ts';
import { MEMORY_HANDLERS } from '../handlers/memory-handlers.ts';
import { RUN_HANDLERS } from '../handlers/run-handlers.ts';
import { SESSION_HANDLERS } from '../handlers/session-handlers.ts';
import { openRefs, type SessionRefs, tagOf } from '../handlers/session-refs.ts';
import { EFFECT_HANDLERS, STATE_HANDLERS } from '../handlers/state-handlers.ts';
import { STORAGE_HANDLERS } from '../handlers/storage-handlers.ts';
import { checkBodiless, readBody, readJson } from './body.ts';
import { Changes, expecting, staleError } from './changes.ts';
import { type CheckedInput, checkInput } from './checked-input.ts';
import { Deadline } from './deadline.ts';
import { HttpError } from './problem.ts';
import { isImmutable, listsTag, toReply } from './replies.ts';

/** Checks of everything, imports and the like may take so many times longer. */
const LONGER = 20;
const MAX_IMPORT_BYTES = 1024 ** 3;
const LONG = /verify|prune|retention|import|export|growth|figures|drift|search|blame|storage\/change/;

/** How large a request may be, and how long it may take. */
export type Limits = { readonly maxBodyBytes: number; readonly timeoutMs: number };

type AnyHandler = (
  call: ServerParts & CheckedInput & { engine: Engine; signal: AbortSignal; watch: Watch },
) => Promise<unknown>;
type Asked = { readonly route: Route; readonly request: Request; readonly deadline: Deadline };
type Work = Asked & { readonly input: CheckedInput; readonly engine: Engine };

/** Answers the routes of the table. */
export class Dispatcher {
  readonly #parts: ServerParts;
  readonly #limits: Limits;
  readonly #changes = new Changes();

  constructor(parts: ServerParts, limits: Limits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  /** Checks a request, asks its handler, and brings the reply into form. */
  async answer(key: string, route: Route, c: Context): Promise<Response> {
    if (this.#parts.isReadOnly && !isRead(key, route))
      throw new HttpError(403, 'READ_ONLY', { message: 'This server is read-only: it was started with --read-only.' });
    const { timeoutMs } = this.#limits;
    const deadline = new Deadline(c.req.raw, timeoutMs * (LONG.test(key) ? LONGER : 1));
    const asked = { route, request: c.req.raw, deadline };
    const params = mapValues(c.req.param() as Record<string, string>, decodeSegment);
    return deadline.within(this.#take(key, asked, params).then((input) => this.#answer(key, asked, input)));
  }

  async #take(key: string, { route, request, deadline }: Asked, params: Record<string, string>): Promise<CheckedInput> {
    const { maxValues } = route;
    const limits = { maxBytes: this.#limits.maxBodyBytes, maxValues, signal: deadline.signal };
    if (route.body === undefined && route.takes === undefined) checkBodiless(key, request);
    const body = route.body === undefined ? undefined : await readJson(request, limits);
    return checkInput(key, route, { params, search: new URL(request.url).searchParams, body });
  }

  /** A change that was begun is made to its end, also if nobody waits for it any more: the next one comes after it. */
  async #answer(key: string, asked: Asked, input: CheckedInput): Promise<Response> {
    const { engine } = this.#parts.manager;
    if (isRead(key, asked.route)) return this.#work(key, { ...asked, input, engine });
    const { headers } = asked.request;
    const change = {
      idempotencyKey: headers.get('idempotency-key') ?? undefined,
      fingerprint: JSON.stringify([key, input.params, input.query, input.body]),
      isApart: asked.route.takes === 'lines',
    };
    return this.#changes.make(change, async () => {
      asked.deadline.check();
      const expected = await this.#expect(headers.get('if-match') ?? undefined, input);
      return this.#work(key, { ...asked, input, engine: expected });
    });
  }

  /** Writes only if the session is as the client saw it: looked at now, and again by the storage in the same step as the change. */
  async #expect(ifMatch: string | undefined, input: CheckedInput): Promise<Engine> {
    const { engine } = this.#parts.manager;
    if (ifMatch === undefined || ifMatch === '*') return engine;
    const session = await this.#readSession(input);
    if (session === undefined)
      throw new InvalidInputError('If-Match names the version of a session; this request is about none. Leave it out.');
    if (!listsTag(ifMatch, tagOf(session))) throw staleError();
    return engine.through(expecting(engine.storage, session));
  }

  async #work(key: string, { route, request, deadline: { signal }, input, engine }: Work) {
    const handler = HANDLERS[key as keyof typeof HANDLERS] as unknown as AnyHandler;
    const body = route.takes === 'lines' ? readBody(request, { maxBytes: MAX_IMPORT_BYTES, signal }) : input.body;
    // The session's own tag is read first: if it changes meanwhile, the older one makes the next change fail, which is safe.
    const etag = key === 'GET /v1/sessions/{session}' ? await this.#readTag(input) : undefined;
    const call = { ...this.#parts, ...input, body, engine, signal, watch: watchFor(signal) };
    const reply = await handler(call);
    if (route.reply === 'lines') return toLines(reply as AsyncIterable<string>);
    const isForever = isImmutable(route, { ...input.params, ...input.query });
    return toReply(request, reply, { isTagged: route.caching !== undefined, isForever, etag });
  }

  async #readTag(input: CheckedInput): Promise<string | undefined> {
    const session = await this.#readSession(input);
    return session && tagOf(session);
  }

  /** The names of the session that a request is about; undefined if it is about none. */
  async #readSession({ params }: CheckedInput): Promise<SessionRefs | undefined> {
    const { session, checkpoint } = params as { readonly session?: string; readonly checkpoint?: string };
    const { manager } = this.#parts;
    const id = session ?? (checkpoint === undefined ? undefined : (await manager.open(checkpoint)).sessionId);
    return id === undefined ? undefined : openRefs(manager, id);
  }
}

const isRead = (key: string, route: Route) => key.startsWith('GET ') || route.isReading === true;

/** Lets others have their turn, and stops when nobody waits any more. */
function watchFor(signal: AbortSignal): Watch {
  const breather = new Breather();
  return async function* watch(items) {
    for await (const item of items) {
      signal.throwIfAborted();
      await breather.breathe();
      yield item;
    }
  };
}

function toLines(lines: AsyncIterable<string>): Response {
  return new Response(ReadableStream.from(lines).pipeThrough(new TextEncoderStream()), {
    headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' },
  });
}

/** What answers each route. */
const HANDLERS: Handlers = {
  ...SESSION_HANDLERS,
  ...STATE_HANDLERS,
  ...EFFECT_HANDLERS,
  ...HISTORY_HANDLERS,
  ...CHANGE_HANDLERS,
  ...RUN_HANDLERS,
  ...KEEP_HANDLERS,
  ...MEMORY_HANDLERS,
  ...STORAGE_HANDLERS,
};
