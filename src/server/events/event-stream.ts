import { HttpError } from '../http/problem.ts';
import type { EventHub, HubEvent } from './event-hub.ts';

/** A client that does not read gets no more than this; then it is told to read everything again. */
const MAX_QUEUED = 1_000;
/** So many are on their way to a client at once. */
const WINDOW = 64;
const PING_MS = 15_000;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

/** Answers a request for events. It goes on after the one the client names, if that is still known; else it begins with `resync`. */
export async function streamEvents(hub: EventHub, request: Request, closing: AbortSignal): Promise<Response> {
  const search = new URL(request.url).searchParams;
  const unknown = [...search.keys()].find((name) => name !== 'session' && name !== 'after');
  if (unknown !== undefined)
    throw new HttpError(400, 'INVALID_INPUT', {
      message: `"${unknown}" is not a parameter of GET /v1/events; known: session, after.`,
    });
  const queue = new EventQueue(hub, search.get('session') ?? undefined);
  const stop = await hub.listen((events) => queue.add(events));
  queue.begin(request.headers.get('last-event-id') ?? search.get('after') ?? undefined);
  const ping = setInterval(() => queue.ping(), PING_MS);
  ping.unref();
  const end = () => {
    clearInterval(ping);
    stop();
    queue.end();
  };
  const over = AbortSignal.any([request.signal, closing]);
  if (over.aborted) end();
  else over.addEventListener('abort', end, { once: true });
  return new Response(queue.toStream(end), { headers: HEADERS });
}

/** The events that one client still has to get. */
class EventQueue {
  readonly #hub: EventHub;
  readonly #sessionId: string | undefined;
  readonly #encoder = new TextEncoder();
  #queued: string[] = [];
  /** What came before is known to the client, or was told to it when it came. */
  #since = 0;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(hub: EventHub, sessionId: string | undefined) {
    this.#hub = hub;
    this.#sessionId = sessionId;
  }

  /** What was missed since the last event the client got. */
  begin(lastId: string | undefined): void {
    this.#write('retry: 1000\n\n');
    const [epoch, number] = lastId?.split('.') ?? [];
    const missed = epoch === this.#hub.epoch ? this.#hub.since(Number(number)) : undefined;
    if (missed !== undefined) this.add(missed);
    else this.#write(this.#format(lastId === undefined ? 'ready' : 'resync', this.#hub.last, {}));
    this.#since = this.#hub.last;
  }

  add(events: readonly HubEvent[]): void {
    for (const { number, event, ...data } of events)
      if (number > this.#since && this.#isWanted(data)) this.#queue(this.#format(event, number, data));
    this.#send();
  }

  #isWanted({ sessionId }: Pick<HubEvent, 'sessionId'>): boolean {
    return this.#sessionId === undefined || sessionId === undefined || sessionId === this.#sessionId;
  }

  ping(): void {
    if (this.#queued.length === 0) this.#write(': ping\n\n');
  }

  end(): void {
    this.#queued = [];
    const controller = this.#controller;
    this.#controller = undefined;
    if (controller?.desiredSize !== null) controller?.close();
  }

  toStream(onCancel: () => void): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
          this.#send();
        },
        pull: () => this.#send(),
        cancel: () => {
          this.#controller = undefined;
          onCancel();
        },
      },
      { highWaterMark: 1 },
    );
  }

  #write(text: string): void {
    this.#queue(text);
    this.#send();
  }

  #queue(text: string): void {
    if (this.#queued.length >= MAX_QUEUED) this.#queued = [this.#format('resync', this.#hub.last, {})];
    else this.#queued.push(text);
  }

  #send(): void {
    const controller = this.#controller;
    if (controller === undefined || this.#queued.length === 0 || (controller.desiredSize ?? 0) <= 0) return;
    controller.enqueue(this.#encoder.encode(this.#queued.splice(0, WINDOW).join('')));
  }

  #format(event: string, number: number, data: object): string {
    return `event: ${event}\nid: ${this.#hub.epoch}.${number}\ndata: ${JSON.stringify(data)}\n\n`;
  }
}
