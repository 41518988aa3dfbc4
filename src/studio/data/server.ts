import { createClient, type Tagged } from '../../server/client/client.ts';
import type { Key, ReplyOf, RequestArguments, RequestOptions } from '../../server/client/types.ts';

/** The server that this page came from. */
export const server = createClient(globalThis.location?.origin ?? 'http://127.0.0.1');

/** What a route returns, for those who only show it. */
export type Reply<K extends Key> = ReplyOf<K>;

/** What was asked for: not here yet, here, or why not. A reply that is being read again stays until the new one is there. */
export type Asked<Value> = {
  readonly value: Value | undefined;
  readonly error: Error | undefined;
};

type Entry = Asked<unknown> & {
  readonly key: Key;
  readonly request: readonly unknown[];
  readonly etag?: string | undefined;
};

/** Nothing is known of a reply. */
export const NOTHING: Asked<never> = { value: undefined, error: undefined };
/** Replies that are kept; the oldest that nobody shows go first. */
const KEPT_REPLIES = 2_000;

/** The replies of the server by their addresses. */
class ReplyCache {
  readonly #entries = new Map<string, Entry>();
  readonly #watchers = new Map<string, Set<() => void>>();
  /** What is being asked for, and whether it may have changed since. */
  readonly #asking = new Map<string, { isStale: boolean }>();

  get(url: string): Asked<unknown> {
    return this.#entries.get(url) ?? NOTHING;
  }

  /** The ETag of a reply that is shown: a change that takes it as `ifMatch` is only made if nothing changed since. */
  etagOf<K extends Key>(key: K, ...request: RequestArguments<K>): string | undefined {
    return this.#entries.get(server.urlOf(key, ...request))?.etag;
  }

  watch(url: string, tell: () => void): () => void {
    const watchers = this.#watchers.get(url) ?? new Set();
    this.#watchers.set(url, watchers.add(tell));
    return () => {
      watchers.delete(tell);
      if (watchers.size === 0) this.#watchers.delete(url);
    };
  }

  /** Asks, unless that was asked already. */
  async load(url: string, key: Key, request: readonly unknown[]): Promise<void> {
    if (this.#entries.has(url)) return;
    const entry = { ...NOTHING, key, request };
    this.#put(url, entry);
    await this.#ask(url, entry);
  }

  /** Asks again for everything that is on the screen and may have changed; forgets the rest of it. */
  refresh(mayHaveChanged: (url: string, error: Error | undefined) => boolean): void {
    for (const [url, entry] of Array.from(this.#entries))
      if (mayHaveChanged(url, entry.error)) {
        if (this.#watchers.has(url)) void this.#ask(url, entry);
        else this.#entries.delete(url);
      }
  }

  /** One request for an address at a time: replies cannot overtake each other, and many saves are asked for together. */
  async #ask(url: string, entry: Entry): Promise<void> {
    const known = this.#asking.get(url);
    if (known !== undefined) {
      known.isStale = true;
      return;
    }
    const asking = { isStale: true };
    this.#asking.set(url, asking);
    while (asking.isStale) {
      asking.isStale = false;
      await this.#askOnce(url, this.#entries.get(url) ?? entry);
    }
    this.#asking.delete(url);
  }

  async #askOnce(url: string, entry: Entry): Promise<void> {
    try {
      const open = server.open as (key: Key, ...request: readonly unknown[]) => Promise<Tagged<unknown>>;
      const { reply: value, etag } = await open(entry.key, ...entry.request);
      this.#put(url, { ...entry, value, etag, error: undefined });
    } catch (error) {
      this.#put(url, { ...entry, error: error as Error });
    }
  }

  #put(url: string, entry: Entry): void {
    this.#entries.delete(url);
    this.#entries.set(url, entry);
    for (const old of this.#entries.keys()) {
      if (this.#entries.size <= KEPT_REPLIES) break;
      if (!this.#watchers.has(old)) this.#entries.delete(old);
    }
    for (const tell of this.#watchers.get(url) ?? []) tell();
  }
}

/** The replies of the server that were asked for. */
export const replies = new ReplyCache();

/** Changes with a key that are under way, by what they ask for. */
const changing = new Map<string, Promise<unknown>>();

/** Asks a route without showing the reply: for acts, and for code that is no component. What is pressed twice is made once. */
export function ask<K extends Key>(key: K, ...request: RequestArguments<K>): Promise<ReplyOf<K>> {
  const { idempotencyKey, ...wanted } = (request[0] ?? {}) as RequestOptions;
  if (idempotencyKey === undefined) return server.request(key, ...request);
  const change = `${key} ${JSON.stringify(wanted)}`;
  const known = changing.get(change) as Promise<ReplyOf<K>> | undefined;
  if (known !== undefined) return known;
  const made = server.request(key, ...request).finally(() => changing.delete(change));
  changing.set(change, made);
  return made;
}

/** A key under which a change is made once, however often it is sent. Pages that came without TLS from elsewhere have no randomUUID. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join('');
}
