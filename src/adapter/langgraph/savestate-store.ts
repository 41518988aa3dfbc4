import {
  BaseStore,
  type Item,
  type Operation,
  type OperationResults,
  type PutOperation,
} from '@langchain/langgraph-checkpoint';
import type { Checkpoint } from '../../core/checkpoint.ts';
import { hasErrorCode } from '../../core/errors.ts';
import { parseName, type SessionId } from '../../core/id.ts';
import type { EncodedState } from '../../core/state-codec.ts';
import { DEFAULT_BRANCH } from '../../manager/branching.ts';
import { buildCheckpoint } from '../../manager/commit-builder.ts';
import type { ManagerContext } from '../../manager/context.ts';
import { loadState } from '../../manager/loading.ts';
import { describeCheckpoint } from '../../manager/save-options.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { createGraphParts, type GraphStorageOptions, toOptions } from './saver-options.ts';
import {
  applyPuts,
  getItem,
  listNamespaces,
  parseOperation,
  type StoreItems,
  type StoreOperation,
  searchItems,
} from './store-items.ts';

/** How a SavestateStore is made. */
export type SavestateStoreOptions = GraphStorageOptions & {
  /** Which of several stores in one storage; default `default`. */
  readonly name?: string;
};

/** The store as of one checkpoint. */
type Loaded = {
  readonly head: Checkpoint | undefined;
  readonly items: StoreItems;
  readonly encoded: EncodedState | undefined;
};

const EMPTY: Loaded = { head: undefined, items: new Map(), encoded: undefined };

/** How often a batch starts again because another process wrote at the same time. */
const MAX_TRIES = 20;

/**
 * Long-term memory for LangGraph graphs: items in namespaces, found by key and filter. A store is one session, and each batch that
 * changes it one checkpoint, so its past can be looked at, compared and forked like that of any other. Pass it as `store`.
 */
export class SavestateStore extends BaseStore {
  readonly #context: ManagerContext;
  readonly #sessionId: SessionId;
  #loaded: Loaded = EMPTY;
  #lastBatch: Promise<unknown> = Promise.resolve();

  constructor(storageOrOptions: ChunkStorage | SavestateStoreOptions) {
    super();
    const options: SavestateStoreOptions = toOptions(storageOrOptions);
    this.#context = createGraphParts(options).context;
    this.#sessionId = parseName(`lg-store/${options.name ?? 'default'}`, 'The name of a store') as SessionId;
  }

  /** Runs operations in their order. Reads see what was there before the batch; its puts and deletions are one checkpoint. */
  override async batch<Operations extends Operation[]>(operations: Operations): Promise<OperationResults<Operations>> {
    const parsed = operations.map(parseOperation);
    const puts = parsed.flatMap((one) => (one.kind === 'put' ? [this.#copyPut(one.operation)] : []));
    const batch = this.#lastBatch.then(() => this.#run(parsed, puts));
    this.#lastBatch = batch.catch(() => undefined);
    return (await batch) as OperationResults<Operations>;
  }

  /** Takes the value as it is now, and refuses what cannot be saved before anything is done. */
  #copyPut(put: PutOperation): PutOperation {
    return put.value === null ? put : { ...put, value: this.#copy(put.value) };
  }

  async #run(operations: readonly StoreOperation[], puts: readonly PutOperation[]): Promise<unknown[]> {
    for (let attempt = 1; ; attempt++) {
      const loaded = await this.#load();
      const results = operations.map((operation) => this.#answer(operation, loaded.items));
      if (puts.length === 0) return results;
      try {
        await this.#save(loaded, puts);
        return results;
      } catch (error) {
        this.#loaded = EMPTY;
        if (!hasErrorCode(error, 'CONFLICT') || attempt === MAX_TRIES) throw error;
      }
    }
  }

  #answer(one: StoreOperation, items: StoreItems): unknown {
    switch (one.kind) {
      case 'get': {
        const item = getItem(items, one.operation);
        return item === undefined ? null : this.#copy(item);
      }
      case 'search':
        return searchItems(items, one.operation).map((item) => ({ ...this.#copy(item), score: undefined }));
      case 'list':
        return listNamespaces(items, one.operation);
      case 'put':
        return null;
    }
  }

  /** Items stay in memory between batches, so what goes in and out is copied. */
  #copy<Value extends Item | PutOperation['value']>(value: Value): Value {
    const { plainCodec } = this.#context;
    return plainCodec.decodeJson(plainCodec.encodeJson(value)) as Value;
  }

  /** The store as it is now; reads it only if someone else changed it. */
  async #load(): Promise<Loaded> {
    const headId = await this.#context.repository.readRef(this.#sessionId, 'branch', DEFAULT_BRANCH);
    if (headId === this.#loaded.head?.id) return this.#loaded;
    if (headId === undefined) return EMPTY;
    const stored = await this.#context.repository.open(headId);
    const { state, encoded } = await loadState(this.#context, stored);
    this.#loaded = { head: stored.checkpoint, items: (state as { items: StoreItems }).items, encoded };
    return this.#loaded;
  }

  async #save({ head, items, encoded: before }: Loaded, puts: readonly PutOperation[]): Promise<void> {
    const sessionId = this.#sessionId;
    const next = applyPuts(items, puts, new Date(this.#context.ports.now()));
    const encoded = this.#context.codec.encode({ items: next }, before);
    const described = describeCheckpoint({ type: 'auto', trigger: 'store_changed' }, this.#context.codec);
    const place = { sessionId, branch: DEFAULT_BRANCH, parent: head, effects: {} };
    const { checkpoint, record } = buildCheckpoint(this.#context, place, { described, encoded });
    await this.#context.storage.commit({
      sessionId,
      checkpoint: record,
      chunks: encoded.chunks,
      refs: [{ kind: 'branch', name: DEFAULT_BRANCH, expect: head?.id ?? null, target: checkpoint.id }],
      requires: head === undefined ? [] : [head.id],
    });
    this.#loaded = { head: checkpoint, items: next, encoded };
  }
}
