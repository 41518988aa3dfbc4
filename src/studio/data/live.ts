import { useSyncExternalStore } from 'react';
import { ResponseError, type StreamEvent } from '../../server/client/client.ts';
import { encodeSegment } from '../../server/contract/segment.ts';
import { replies, server } from './server.ts';

/** How the stream of events is: told to the person, so that a page that stands still is not taken for a quiet agent. */
export type LiveStatus = 'connecting' | 'live' | 'lost' | 'gone' | 'refused';

/** What tabs tell each other. */
type Told = {
  readonly asks?: boolean;
  readonly retries?: boolean;
  readonly event?: StreamEvent;
  readonly status?: LiveStatus;
};

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
/** A server that is away for longer than a restart takes is told of as gone. */
const GONE_AFTER_MS = 2_000;

/** Follows what is saved, by this and every other process, and reads again what that changes. */
class Live {
  status: LiveStatus = 'connecting';
  readonly #listeners = new Set<(event: StreamEvent) => void>();
  readonly #watchers = new Set<() => void>();
  #after: string | undefined;
  #others: BroadcastChannel | undefined;
  #isLeading = false;
  #wake = (): void => undefined;

  /** Follows until the page is left. Of all tabs one has the connection, and tells the others: browsers have few for a server. */
  async run(signal: AbortSignal): Promise<void> {
    if (navigator.locks === undefined) return this.#follow(signal); // a page that came without TLS from another machine
    this.#others = new BroadcastChannel('events');
    this.#others.onmessage = ({ data }: MessageEvent<Told>) => this.#hear(data);
    this.#others.postMessage({ asks: true } satisfies Told);
    await navigator.locks.request('events', { signal }, () => {
      this.#isLeading = true;
      return this.#follow(signal);
    });
  }

  /** Connects again at once: this page may be let in now. */
  retry(): void {
    this.#others?.postMessage({ retries: true } satisfies Told);
    this.#wake();
  }

  #hear({ asks, retries, event, status }: Told): void {
    if (retries === true) this.#wake();
    if (asks === true && this.#isLeading) this.#others?.postMessage({ status: this.status } satisfies Told);
    if (event !== undefined) this.#take(event);
    if (status !== undefined) this.#say(status);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      let trouble: LiveStatus = pauseMs < GONE_AFTER_MS ? 'lost' : 'gone';
      try {
        for await (const event of this.#open(signal)) {
          pauseMs = FIRST_PAUSE_MS;
          this.#others?.postMessage({ event } satisfies Told);
          this.#take(event);
        }
      } catch (error) {
        // The server is gone, or the connection, or another server is there: it is tried again, and the page says so meanwhile.
        if (error instanceof ResponseError && error.code === 'ACCESS_DENIED') trouble = 'refused';
      }
      this.#say(trouble);
      await new Promise<void>((done) => {
        this.#wake = done;
        setTimeout(done, pauseMs);
      });
    }
  }

  listen(listener: (event: StreamEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  watch = (tell: () => void): (() => void) => {
    this.#watchers.add(tell);
    return () => this.#watchers.delete(tell);
  };

  async *#open(signal: AbortSignal): AsyncGenerator<StreamEvent> {
    const events = server.events({ signal, ...(this.#after !== undefined && { after: this.#after }) });
    const first = events.next();
    // The first event may be long in coming; that the server answers is seen by any other reply.
    void server.request('GET /v1/server').then(
      () => this.#say('live'),
      () => undefined,
    );
    const { value, done } = await first;
    if (done) return;
    yield value;
    yield* events;
  }

  #take(event: StreamEvent): void {
    this.#after = event.id;
    this.#say('live');
    replies.refresh((url) => isTouchedBy(url, event));
    for (const listener of this.#listeners) listener(event);
  }

  #say(status: LiveStatus): void {
    if (this.status === status) return;
    if (this.#isLeading) this.#others?.postMessage({ status } satisfies Told);
    if (status === 'live' && this.status !== 'connecting')
      replies.refresh((url, error) => error !== undefined || !url.includes('/v1/checkpoints/'));
    this.status = status;
    for (const tell of this.#watchers) tell();
  }
}

/** What is addressed by a checkpoint does not change; lists, sessions and figures do. The timeline follows events by itself. */
function isTouchedBy(url: string, { event, sessionId }: StreamEvent): boolean {
  if (url.includes('/timeline') || url.includes('/v1/diff') || url.includes('/v1/labels')) return false;
  if (url.includes('/v1/checkpoints/')) return event !== 'checkpoint' && !/\/(state|value|messages|blame)\b/.test(url);
  if (event === 'resync' || sessionId === undefined || !url.includes('/v1/sessions/'))
    return !url.endsWith('/v1/server');
  return url.includes(`/v1/sessions/${encodeSegment(sessionId)}`);
}

/** The stream of events of this page. */
export const live = new Live();

/** How the stream is. */
export function useLiveStatus(): LiveStatus {
  return useSyncExternalStore(live.watch, () => live.status);
}
