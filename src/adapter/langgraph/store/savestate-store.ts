import { BaseStore, type Operation, type OperationResults, type PutOperation } from '@langchain/langgraph-checkpoint';
import { hasErrorCode, InvalidInputError } from '../../../core/errors.ts';
import { isRecord } from '../../../core/options.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { type CheckpointId, name, parseName, type SessionId } from '../../../core/record/id.ts';
import { backoff } from '../../../core/time/backoff.ts';
import { Serial } from '../../../core/time/serial.ts';
import { sleep } from '../../../core/time/timer.ts';
import type { Chunk, Digest } from '../../../core/tree/chunk.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { readState } from '../../../manager/engine/loading.ts';
import { DEFAULT_BRANCH, readSession } from '../../../manager/engine/records.ts';
import type { StoredCheckpoint } from '../../../manager/engine/repository.ts';
import { describeCheckpoint } from '../../../manager/engine/save-options.ts';
import type { Writer } from '../../../manager/engine/writer.ts';
import { KEEP_MARK } from '../../../manager/retention/retention-protections.ts';
import { deleteCheckpoints } from '../../../manager/retention/retention-records.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { type AdapterStorageOptions, openAdapterEngine, toOptions } from '../../adapter-storage.ts';
import { langGraphClasses } from '../codec/saver-options.ts';
import { StoreChunks } from './store-chunks.ts';
import { type StoredItem, StoreItems } from './store-items.ts';
import { StoreSearch } from './store-search.ts';
import {
  EMPTY_ROOT,
  formatRoot,
  parseRoot,
  STORE_FORM,
  type StorePut,
  type StoreRoot,
  StoreTree,
} from './store-tree.ts';

/** How a SavestateStore is made. */
export type SavestateStoreOptions = AdapterStorageOptions & {
  /** Which of several stores in one storage; default `default`. */
  readonly name?: string;
};

/** What `prune` forgot: how many checkpoints, and the bytes that the storage gave back. */
type StorePruneReport = { readonly checkpoints: number; readonly bytes: number };

/** The store as of one checkpoint. `unstored` holds the chunks of a store that is there in another form, until the next save. */
type Loaded = {
  readonly head: Checkpoint | undefined;
  readonly root: StoreRoot;
  readonly unstored: ReadonlyMap<Digest, Chunk>;
};

const EMPTY: Loaded = { head: undefined, root: EMPTY_ROOT, unstored: new Map() };

/** Pauses of a batch that another process was faster than. */
const PAUSES = { firstMs: 4, maxMs: 250 };

/** Stores never disagree on an item, so a batch waits its turn; only a storage that refuses everything takes this long. */
const MAX_WAIT_MS = 60_000;

/**
 * Long-term memory for LangGraph graphs: items in namespaces, found by key, filter and words. A store is one session, and each batch
 * that changes it one checkpoint, so its past can be looked at, compared and forked like that of any other. Pass it as `store`.
 */
export class SavestateStore extends BaseStore {
  readonly #engine: Engine;
  readonly #sessionId: SessionId;
  readonly #chunks: StoreChunks;
  readonly #tree: StoreTree;
  readonly #items: StoreItems;
  readonly #search: StoreSearch;
  #loaded: Loaded = EMPTY;
  readonly #serial = new Serial();

  constructor(storageOrOptions: ChunkStorage | SavestateStoreOptions);
  constructor(...given: [ChunkStorage | SavestateStoreOptions]) {
    super();
    const options: SavestateStoreOptions = toOptions(given, { name }, 'SavestateStore');
    this.#engine = openAdapterEngine(options, langGraphClasses);
    this.#sessionId = parseName(`lg-store/${options.name ?? 'default'}`, 'The name of a store') as SessionId;
    this.#chunks = new StoreChunks(this.#engine.repository);
    this.#items = new StoreItems(this.#engine.codec, this.#chunks);
    this.#tree = new StoreTree(this.#chunks, this.#items);
    this.#search = new StoreSearch(this.#tree, this.#items);
  }

  /** Runs operations in their order. Reads see what was there before the batch; its puts and deletions are one checkpoint. */
  override async batch<Operations extends Operation[]>(operations: Operations): Promise<OperationResults<Operations>> {
    for (const operation of operations) checkOperation(operation);
    const changes = operations.filter(isPut);
    const run = async (writer: Writer): Promise<unknown[]> => {
      const puts = changes.map((change) => this.#encodePut(change));
      return this.#serial.run(() => this.#run(writer, operations, puts));
    };
    const done = this.#engine.write(run, changes.length > 0 ? { sessionId: this.#sessionId } : undefined);
    return (await done) as OperationResults<Operations>;
  }

  /**
   * Forgets the past: deletes every checkpoint of the store but the latest state and what has a tag, pin or branch of its own, and
   * gives the space back. After it nothing is left of items that were deleted or replaced.
   */
  async prune(): Promise<StorePruneReport> {
    return this.#serial.run(async () => {
      const { storage } = this.#engine;
      const doomed = new Map<CheckpointId, string>();
      for await (const { id, checkpoint } of readSession(storage, this.#sessionId))
        if (checkpoint !== undefined) doomed.set(id, 'only the latest state of its store was kept');
      const deleted = await deleteCheckpoints(this.#engine, doomed);
      const { bytes } = await storage.collect();
      return { checkpoints: deleted.length, bytes };
    });
  }

  /** Takes the value as it is now, and refuses what cannot be saved before anything is done. */
  #encodePut({ namespace, key, value, index }: PutOperation): StorePut {
    const encoded = value === null ? undefined : this.#items.encode(value);
    return { namespace: [...namespace], key, value: encoded, index: index ?? undefined };
  }

  async #run(writer: Writer, operations: readonly Operation[], puts: readonly StorePut[]): Promise<unknown[]> {
    let waitedMs = 0;
    for (let tries = 1; ; tries++) {
      const headId = await this.#readHeadId();
      try {
        const loaded = await this.#load(headId);
        const results: unknown[] = [];
        for (const operation of operations) results.push(await this.#answer(operation, loaded.root));
        if (puts.length > 0) await this.#save(writer, loaded, puts);
        return results;
      } catch (error) {
        if (waitedMs > MAX_WAIT_MS || !(await this.#isOutdated(error, headId))) throw error;
        const pauseMs = backoff(tries, PAUSES) * Math.random();
        waitedMs += pauseMs;
        await sleep(this.#engine.ports, pauseMs);
      }
    }
  }

  /** Whether another process changed the store meanwhile; one that also pruned it may have taken away what was to be read. */
  async #isOutdated(error: unknown, headId: CheckpointId | undefined): Promise<boolean> {
    if (hasErrorCode(error, 'CONFLICT')) return true;
    const isGone = hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'NOT_FOUND');
    return isGone && (await this.#readHeadId()) !== headId;
  }

  /** Tells operations apart by their fields, as LangGraph does. */
  async #answer(operation: Operation, root: StoreRoot): Promise<unknown> {
    if ('namespacePrefix' in operation) return this.#search.search(root, operation);
    if (!('namespace' in operation)) return this.#search.listNamespaces(root, operation);
    return isPut(operation) ? null : this.#search.get(root, operation.namespace, operation.key);
  }

  /** The store as of its head; reads no more than that, and only if someone else changed it. */
  async #load(headId: CheckpointId | undefined): Promise<Loaded> {
    if (headId === this.#loaded.head?.id) return this.#loaded;
    this.#loaded = headId === undefined ? EMPTY : await this.#open(await this.#engine.repository.open(headId));
    this.#chunks.unstored = this.#loaded.unstored;
    return this.#loaded;
  }

  async #open(stored: StoredCheckpoint): Promise<Loaded> {
    const { checkpoint: head, root: chunk } = stored;
    if (head.metadata?.form === STORE_FORM) return { head, root: parseRoot(chunk), unstored: new Map() };
    const puts = putsOfState(await readState(this.#engine, stored), this.#items);
    const { root, written } = await this.#tree.apply(EMPTY_ROOT, puts, this.#engine.ports.now());
    return { head, root, unstored: written };
  }

  async #readHeadId(): Promise<CheckpointId | undefined> {
    const target = await this.#engine.repository.readRef(this.#sessionId, 'branch', DEFAULT_BRANCH);
    return target as CheckpointId | undefined;
  }

  async #save(writer: Writer, { head, root: before, unstored }: Loaded, puts: readonly StorePut[]): Promise<void> {
    const { root, written } = await this.#tree.apply(before, puts, this.#engine.ports.now());
    if (root === before) return;
    const chunk = formatRoot(root);
    const chunks = neededChunks(chunk, new Map([...unstored, ...written]));
    const options = { type: 'auto', trigger: 'store_changed', metadata: { form: STORE_FORM } };
    const described = describeCheckpoint(options, this.#engine.codec);
    const place = {
      sessionId: this.#sessionId,
      branch: DEFAULT_BRANCH,
      parent: head,
      expect: head?.id ?? null,
      refs: head === undefined ? [{ kind: 'mark' as const, name: KEEP_MARK, target: DEFAULT_BRANCH }] : [],
    };
    const encoded = { root: chunk, sizeBytes: root.bytes };
    const checkpoint = await writer.write(place, { described, encoded, chunks });
    this.#chunks.keep(chunks);
    this.#chunks.unstored = EMPTY.unstored;
    this.#loaded = { head: checkpoint, root, unstored: EMPTY.unstored };
  }
}

/**
 * Of some new chunks those that a state needs: parts of another form that were replaced before they were stored are left out. What
 * others refer to comes before them, because storages know a chunk by a short number once they have it.
 */
function neededChunks(root: Chunk, known: ReadonlyMap<Digest, Chunk>): Chunk[] {
  const needed = new Set<Chunk>();
  const collect = ({ refs }: Chunk): void => {
    for (const ref of refs) {
      const chunk = known.get(ref);
      if (chunk === undefined || needed.has(chunk)) continue;
      collect(chunk);
      needed.add(chunk);
    }
  };
  collect(root);
  return [...needed];
}

function isPut(operation: Operation): operation is PutOperation {
  return 'namespace' in operation && 'value' in operation;
}

/** Refuses what no item can have. */
function checkOperation(operation: Operation): void {
  if (!('namespace' in operation)) return;
  const { namespace, key } = operation;
  if (typeof key !== 'string') throw refuse('key', 'The key of an item must be a text', key);
  if (!isPut(operation)) return;
  const isLabel = (label: unknown) => typeof label === 'string' && label !== '';
  if (namespace.length === 0 || !namespace.every(isLabel))
    throw refuse('namespace', 'A namespace must be a list of texts that are not empty', namespace);
  const index: unknown = operation.index ?? false;
  if (index !== false && !(Array.isArray(index) && index.every((path) => typeof path === 'string')))
    throw refuse('index', 'index must be false or a list of paths', index);
}

function refuse(field: string, rule: string, found: unknown): InvalidInputError {
  return new InvalidInputError(`${rule}; found ${JSON.stringify(found)}.`, { details: { field } });
}

type Fields = { readonly [key: string]: unknown };

/** Where something came in the order of coming. */
type Placed = { readonly at: number };

/** The items of a store's state, in their order, if something other than a store saved it: that lays it out in other chunks. */
function putsOfState(state: unknown, store: StoreItems): StorePut[] {
  const { form, namespaces } = (isRecord(state) ? state : {}) as Fields;
  if (form === undefined)
    throw new InvalidInputError(
      'The session of this store holds a state that no store saved. Give the store another name, or delete the session.',
      { details: { field: 'name' } },
    );
  const groups = entriesOf<Placed & { readonly items: unknown }>(namespaces);
  return groups.flatMap(([name, { items }]) =>
    entriesOf<Placed & { readonly item: StoredItem }>(items).map(([key, { item }]) => ({
      namespace: JSON.parse(name) as string[],
      key,
      value: store.encode(item.value),
      index: item.index,
      times: { createdAt: item.createdAt, updatedAt: item.updatedAt },
    })),
  );
}

/** The entries of a trie, in the order in which they came: a Map is a leaf, an object a branch. */
function entriesOf<Entry extends Placed>(node: unknown): [string, Entry][] {
  const leaves: [string, Entry][] = [];
  const collect = (one: unknown): void => {
    if (one instanceof Map) leaves.push(...(one as Map<string, Entry>));
    else for (const child of Object.values((one ?? {}) as Fields)) collect(child);
  };
  collect(node);
  return leaves.sort(([, a], [, b]) => a.at - b.at);
}
