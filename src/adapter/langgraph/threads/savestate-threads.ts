import { isDeepStrictEqual } from 'node:util';
import type { BaseStore, Item, Operation } from '@langchain/langgraph-checkpoint';
import { HTTPException } from 'hono/http-exception';
import { groupBy } from '../../../core/group-by.ts';
import { checkOptions, filledString } from '../../../core/options.ts';
import { parseThreadId } from '../record/thread-session.ts';
import type { SavestateSaver } from '../saver/savestate-saver.ts';

type Metadata = { [key: string]: unknown };

/** A thread as LangGraph's servers and clients know it. */
type ServedThread = {
  readonly thread_id: string;
  readonly metadata: Metadata;
  readonly created_at: string;
  readonly updated_at: string;
};

/** The same in a list: with what its graph holds now, so that a page shows its first words. */
type FoundThread = ServedThread & {
  readonly values: Metadata | null;
  readonly status: 'idle' | 'interrupted' | 'error';
};

type ThreadSearch = {
  readonly metadata?: Metadata;
  readonly limit: number;
  readonly offset: number;
  readonly sortBy: 'created_at' | 'updated_at';
  readonly sortOrder: 'asc' | 'desc';
};

/** How threads are served. */
type SavestateThreadsOptions = {
  /** The name that `createEmbedServer` has for the graph of threads that no client made: what programs saved is served, too. */
  readonly graph?: string;
};

const NAMESPACE = 'threads';
/** The item that a thread has in any case; one for each key of its metadata is beside it, so that two patches never undo each other. */
const SELF = 'thread';
const METADATA = 'metadata.';
/** Channels that belong to the graph, not to its state. */
const INTERNAL = /^__|^branch:/;

/** Serves the threads of a saver by LangGraph's own server: pass it to `createEmbedServer` as `threads`. */
export class SavestateThreads {
  readonly #saver: SavestateSaver;
  readonly #store: BaseStore;
  readonly #graph: string | undefined;

  constructor(saver: SavestateSaver, store: BaseStore, options: SavestateThreadsOptions = {}) {
    checkOptions(options, { graph: filledString }, 'SavestateThreads');
    this.#saver = saver;
    this.#store = store;
    this.#graph = options.graph;
  }

  /** The thread; throws what a server answers with 404 if there is none. */
  async get(id: string): Promise<ServedThread> {
    const items = await this.#items(parseThreadId(id));
    if (items.length > 0) return toThread(id, items);
    const saved =
      this.#graph === undefined ? undefined : await this.#saver.getTuple({ configurable: { thread_id: id } });
    if (saved !== undefined) return this.#toSaved(id, saved.checkpoint.ts);
    throw new HTTPException(404, { message: `There is no thread "${id}".` });
  }

  /** Makes a thread or replaces its metadata (`put`), or adds to the metadata (`patch`). */
  async set(
    id: string,
    { kind, metadata = {} }: { kind: 'put' | 'patch'; metadata?: Metadata },
  ): Promise<ServedThread> {
    const namespace = [NAMESPACE, parseThreadId(id)];
    const put = (key: string, value: Metadata | null): Operation => ({ namespace, key, value: value as Item['value'] });
    const before = kind === 'put' ? await this.#items(id) : [];
    await this.#store.batch([
      ...before.filter(({ key }) => key !== SELF).map(({ key }) => put(key, null)),
      put(SELF, {}),
      ...Object.entries(metadata).map(([key, value]) => put(METADATA + key, { value })),
    ]);
    return toThread(id, await this.#items(id));
  }

  /** Deletes a thread: its metadata, its checkpoints and its writes. */
  async delete(id: string): Promise<void> {
    const namespace = [NAMESPACE, parseThreadId(id)];
    await this.#saver.deleteThread(id);
    const items = await this.#items(id);
    await this.#store.batch(items.map(({ key }): Operation => ({ namespace, key, value: null })));
  }

  /** The threads with this metadata, in order, a page of them. */
  async *search(search: ThreadSearch): AsyncGenerator<{ thread: FoundThread; total: number }> {
    const { metadata = {}, limit, offset, sortBy, sortOrder } = search;
    const wanted = Object.entries(metadata);
    const all = (await this.#list()).filter((thread) =>
      wanted.every(([key, value]) => isDeepStrictEqual(thread.metadata[key], value)),
    );
    const order = sortOrder === 'asc' ? 1 : -1;
    all.sort((a, b) => order * (a[sortBy] < b[sortBy] ? -1 : Number(a[sortBy] > b[sortBy])));
    for (const thread of all.slice(offset, offset + limit))
      yield { thread: await this.#look(thread), total: all.length };
  }

  #items(id: string): Promise<readonly Item[]> {
    return this.#store.search([NAMESPACE, id], { limit: Number.MAX_SAFE_INTEGER });
  }

  async #list(): Promise<ServedThread[]> {
    const items = await this.#store.search([NAMESPACE], { limit: Number.MAX_SAFE_INTEGER });
    const byId = groupBy(items, ({ namespace }) => namespace[1] ?? '');
    const threads = [...byId].map(([id, items]) => toThread(id, items));
    if (this.#graph === undefined) return threads;
    for await (const { threadId, savedAt } of this.#saver.listThreads())
      if (!byId.has(threadId)) threads.push(this.#toSaved(threadId, savedAt.toISOString()));
    return threads;
  }

  #toSaved(id: string, savedAt: string): ServedThread {
    return { thread_id: id, metadata: { graph_id: this.#graph }, created_at: savedAt, updated_at: savedAt };
  }

  async #look(thread: ServedThread): Promise<FoundThread> {
    const saved = await this.#saver.getTuple({ configurable: { thread_id: thread.thread_id } });
    if (saved === undefined) return { ...thread, values: null, status: 'idle' };
    const values = Object.entries(saved.checkpoint.channel_values).filter(([channel]) => !INTERNAL.test(channel));
    const written = new Set(saved.pendingWrites?.map(([, channel]) => channel));
    const status = written.has('__interrupt__') ? 'interrupted' : written.has('__error__') ? 'error' : 'idle';
    return { ...thread, values: Object.fromEntries(values), status };
  }
}

function toThread(id: string, items: readonly Item[]): ServedThread {
  const fields = items.filter(({ key }) => key.startsWith(METADATA));
  const times = items.flatMap(({ createdAt, updatedAt }) => [createdAt.getTime(), updatedAt.getTime()]);
  return {
    thread_id: id,
    metadata: Object.fromEntries(fields.map(({ key, value }) => [key.slice(METADATA.length), value.value])),
    created_at: new Date(Math.min(...times)).toISOString(),
    updated_at: new Date(Math.max(...times)).toISOString(),
  };
}
