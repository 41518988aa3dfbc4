import type { Context } from 'hono';
import type { Engine } from '../../manager/engine/engine.ts';
import { Breather } from '../../storage/breather.ts';
import type { Watch } from '../../view/history.ts';
import type { Route } from '../contract/route.ts';
import type { ServerParts } from '../handlers/call.ts';
import { HANDLERS } from '../handlers/handlers.ts';
import { openRefs, type SessionRefs, tagOf } from '../handlers/session-refs.ts';
import { readBody, readJson } from './body.ts';
import { Changes } from './changes.ts';
import { type CheckedInput, checkInput } from './checked-input.ts';
import { expecting, staleError } from './expecting.ts';
import { HttpError } from './problem.ts';
import { isImmutable, toReply } from './replies.ts';

/** Checks of everything, imports and the like may take so many times longer. */
const LONGER = 20;
const MAX_IMPORT_BYTES = 1024 ** 3;
const LONG = /verify|prune|retention|import|export|growth|figures|drift|search|blame|storage\/change/;

/** How large a request may be, and how long it may take. */
export type Limits = { readonly maxBodyBytes: number; readonly timeoutMs: number };

type AnyHandler = (
  call: ServerParts & CheckedInput & { engine: Engine; signal: AbortSignal; watch: Watch },
) => Promise<unknown>;
type Work = { readonly input: CheckedInput; readonly request: Request; readonly engine: Engine };

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
    const isChange = !key.startsWith('GET ') && route.isReading !== true;
    if (isChange && this.#parts.isReadOnly)
      throw new HttpError(403, 'READ_ONLY', { message: 'This server is read-only: it was started with --read-only.' });
    const body = route.body === undefined ? undefined : await readJson(c.req.raw, this.#limits.maxBodyBytes);
    const search = new URL(c.req.url).searchParams;
    const input = checkInput(key, route, { params: c.req.param() as Record<string, string>, search, body });
    const { engine } = this.#parts.manager;
    const work = (through: Engine) => this.#work(key, route, { input, request: c.req.raw, engine: through });
    if (!isChange) return work(engine);
    const change = {
      idempotencyKey: c.req.header('idempotency-key'),
      fingerprint: JSON.stringify([key, input.params, input.query, input.body]),
    };
    return this.#changes.make(change, async () => work(await this.#expect(c.req.header('if-match'), input)));
  }

  /** Writes only if the session is as the client saw it: looked at now, and again by the storage in the same step as the change. */
  async #expect(ifMatch: string | undefined, input: CheckedInput): Promise<Engine> {
    const { engine } = this.#parts.manager;
    const session = ifMatch === undefined || ifMatch === '*' ? undefined : await this.#readSession(input);
    if (session === undefined) return engine;
    const known = ifMatch?.split(',').map((each) => each.trim().replace(/^W\//, ''));
    if (known?.includes(tagOf(session)) !== true) throw staleError();
    return engine.through(expecting(engine.storage, session));
  }

  async #work(key: string, route: Route, { input, request, engine }: Work) {
    const handler = HANDLERS[key as keyof typeof HANDLERS] as unknown as AnyHandler;
    const timeoutMs = this.#limits.timeoutMs * (LONG.test(key) ? LONGER : 1);
    const late = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([request.signal, late]);
    const body = route.takes === 'lines' ? readBody(request, MAX_IMPORT_BYTES) : input.body;
    // The session's own tag is read first: if it changes meanwhile, the older one makes the next change fail, which is safe.
    const etag = key === 'GET /v1/sessions/{session}' ? await this.#readTag(input) : undefined;
    const call = { ...this.#parts, ...input, body, engine, signal, watch: watchFor(signal) };
    const reply = await orLate(handler(call), { signal, late, timeoutMs });
    if (route.reply === 'lines') return toLines(reply as AsyncIterable<string>);
    return toReply(request, reply, { route, isForever: isImmutable(route, { ...input.params, ...input.query }), etag });
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

type Deadline = { readonly signal: AbortSignal; readonly late: AbortSignal; readonly timeoutMs: number };

/** What a handler returns, unless its time is over first. */
async function orLate<Reply>(reply: Promise<Reply>, { signal, late, timeoutMs }: Deadline): Promise<Reply> {
  let stop: () => void = () => undefined;
  const over = new Promise<never>((_, reject) => {
    stop = () => {
      const message = late.aborted ? `This took longer than ${timeoutMs} ms.` : 'The client is gone.';
      reject(new HttpError(late.aborted ? 504 : 499, 'TIMEOUT', { message }));
    };
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([reply, over]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function toLines(lines: AsyncIterable<string>): Response {
  return new Response(ReadableStream.from(lines).pipeThrough(new TextEncoderStream()), {
    headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' },
  });
}
