import { randomBytes } from 'node:crypto';
import { StateCodec } from '../core/codec/state-codec.ts';
import { ClosedError, InvalidInputError } from '../core/errors.ts';
import { callback, checkOptions, filledString, having, type OptionChecks } from '../core/options.ts';
import { formatRandom, inBulk } from '../core/record/id.ts';
import { redactionOf, type SecretsOption, secretsOption } from '../core/secret/redaction.ts';
import type { ForkOptions } from '../manager/branch/branching.ts';
import type { BranchHead } from '../manager/branch/history.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { engineOf, type SessionKeeper } from '../manager/engine/engine.ts';
import {
  type ChangeOptions,
  type MemoryChange,
  type PromoteOptions,
  promote,
  remove,
  removeAll,
  type ScopeChangeOptions,
  update,
} from './edit/editing.ts';
import { explain, historyOf, type MemoryExplanation, type MemoryHistoryEntry } from './edit/explaining.ts';
import { countOf, type PurgeResult, purge } from './edit/purging.ts';
import { get, getAll, type SearchOptions, type SearchResult, type SelectOptions, search } from './find/finding.ts';
import { type RenderOptions, type RenderResult, render } from './find/rendering.ts';
import { type AddResult, Learning } from './learn/learning.ts';
import type { AddOptions } from './learn/proposal.ts';
import type { Embedder } from './log/embedder.ts';
import type { MemoryExtractor } from './log/extractor.ts';
import type { MemoryContext } from './log/memory-context.ts';
import { checkId, type MemoryInput } from './log/memory-input.ts';
import { ScopeLogs } from './log/scope-log.ts';
import { VectorIndex } from './log/vector-index.ts';
import { noteStanding, type ViewOptions, Views } from './log/views.ts';
import type { MemoryRecord, MemoryScope } from './storage/memory-record.ts';
import type { MemoryStorage } from './storage/memory-storage.ts';
import { SqliteMemoryStorage } from './storage/sqlite/sqlite-memory-storage.ts';

/** How a memory is opened. Without anything it is the file `memories/history.db`, found by words alone. */
export type MemoryOptions = {
  /** The file; default `memories/history.db`. Its folder is made if it is missing. */
  readonly path?: string;
  /** Another place than a file; closed with the memory. */
  readonly storage?: MemoryStorage;
  /** Whose sessions learn. With it memory follows their branches; without it everything is visible from everywhere. */
  readonly manager?: CheckpointManager;
  /** Finds by meaning besides words. */
  readonly embedder?: Embedder;
  /** Finds more in turns than rules can. */
  readonly extractor?: MemoryExtractor;
  /** Which secrets are left out, as for a CheckpointManager; default: as the manager does, and without one those of known names and formats. */
  readonly secrets?: SecretsOption;
  /** The clock, for tests. */
  readonly now?: () => number;
};

const MEMORY_CHECKS: OptionChecks<MemoryOptions> = {
  path: filledString,
  storage: having('append', 'readEvents'),
  manager: having('session', 'rewind'),
  embedder: having('embed'),
  extractor: having('extract'),
  secrets: secretsOption,
  now: callback,
};

const FORGOTTEN = 'its user was forgotten';

/** Facts about users and earlier work that outlive a run and follow its branches: what a rewind abandons is no longer known. */
export class Memory {
  readonly #context: MemoryContext;
  readonly #manager: CheckpointManager | undefined;
  readonly #learning: Learning;
  /** Hears when the manager forgets a user, and where its sessions stand. */
  readonly #keeper: SessionKeeper = {
    forget: () => undefined,
    whileIdle: (_sessionId, end) => end(),
    noteStanding: (sessionId) => noteStanding(this.#context, sessionId),
    forgetUser: async (userId, isDryRun) =>
      isDryRun
        ? countOf(this.#context, { userId })
        : (await this.purge({ userId }, { reason: FORGOTTEN })).purged.length,
  };
  #isClosed = false;

  constructor(options: MemoryOptions = {}) {
    checkOptions(options, MEMORY_CHECKS, 'new Memory()');
    const { path, storage, manager, embedder, extractor, secrets, now = Date.now } = options;
    if (path !== undefined && storage !== undefined)
      throw new InvalidInputError('Memory takes a path or a storage, not both.');
    const opened = storage ?? new SqliteMemoryStorage(path === undefined ? {} : { path });
    this.#manager = manager;
    this.#context = {
      storage: opened,
      views: new Views(opened, manager),
      logs: new ScopeLogs(opened),
      vectors: new VectorIndex(opened, embedder),
      extractor,
      codec: codecOf(secrets, manager),
      now,
      newId: () => `mem_${formatRandom(random(ID_CHARS))}`,
    };
    this.#learning = new Learning(this.#context);
    if (manager !== undefined) engineOf(manager).keepers.add(this.#keeper);
  }

  // Learning

  /** Remembers what was said. Resolves when it is durable; vectors are made afterwards, and what an extractor could not do is said in the result. */
  async add(messages: MemoryInput, options: AddOptions): Promise<AddResult> {
    this.#checkOpen();
    return this.#learning.add(messages, options);
  }

  /** Changes a memory, by adding to its history. */
  async update(id: string, change: string | MemoryChange, options: ChangeOptions = {}): Promise<void> {
    checkId(id, 'update');
    await update(this.#open, [id, change], options);
  }

  /** Retracts a memory; its history stays. For removing the words themselves there is `purge`. */
  async delete(id: string, options: ChangeOptions = {}): Promise<void> {
    checkId(id, 'delete');
    await remove(this.#open, id, options);
  }

  /** Retracts all that is visible of a scope; returns how many that were. */
  async deleteAll(options: ScopeChangeOptions): Promise<number> {
    return removeAll(this.#open, options);
  }

  // Looking

  /** What answers a question, best first. */
  async search(query: string, options: SearchOptions): Promise<SearchResult> {
    return search(this.#open, query, options);
  }

  /** One memory; undefined if it is not visible from there. */
  async get(id: string, options: ViewOptions = {}): Promise<MemoryRecord | undefined> {
    checkId(id, 'get');
    return get(this.#open, id, options);
  }

  /** All that is visible of a scope, oldest first. */
  async getAll(options: SelectOptions): Promise<readonly MemoryRecord[]> {
    return getAll(this.#open, options);
  }

  /** Everything that happened to a memory, on all branches, oldest first. */
  async history(id: string, options: ViewOptions = {}): Promise<readonly MemoryHistoryEntry[]> {
    checkId(id, 'history');
    return historyOf(this.#open, id, options);
  }

  /** Which checkpoints and words taught a memory, and what is left of them. */
  async why(id: string, options: ViewOptions = {}): Promise<MemoryExplanation> {
    checkId(id, 'why');
    return explain(this.#open, id, options);
  }

  /** Fills `{memory}` and `{memory:preferences}` into a prompt: marked as data, within the budget. */
  async render(template: string, options: RenderOptions): Promise<RenderResult> {
    return render(this.#open, template, options);
  }

  // Following branches

  /** Lets a memory be seen from every branch and session, as it is seen from there. */
  async promote(id: string, options: PromoteOptions = {}): Promise<void> {
    checkId(id, 'promote');
    await promote(this.#open, id, options);
  }

  /** `manager.rewind`, which memory follows: what was learned after the checkpoint is hidden, unless it was promoted. */
  async rewind(idOrPrefix: string, options?: ForkOptions): Promise<BranchHead> {
    this.#checkOpen();
    if (this.#manager !== undefined) return this.#manager.rewind(idOrPrefix, options);
    throw new InvalidInputError('A rewind needs the CheckpointManager. Give Memory the option "manager".');
  }

  // Forgetting

  /** Removes the words of memories, of all their versions and of what was taken from them, and says where copies may be left. */
  async purge(what: string | MemoryScope, options: { readonly reason?: string } = {}): Promise<PurgeResult> {
    return purge(this.#open, what, options);
  }

  /** Removes everything, of every user. */
  async reset(): Promise<void> {
    await this.#open.storage.reset();
  }

  /** Waits for vectors that are being made, and closes the storage. Idempotent. The manager stays open. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#manager !== undefined) engineOf(this.#manager).keepers.delete(this.#keeper);
    await this.#context.vectors.settle();
    await this.#context.storage.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #open(): MemoryContext {
    this.#checkOpen();
    return this.#context;
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError('The memory was closed. Open it again.');
  }
}

/** Long-term memory redacts like the checkpoints beside it. */
function codecOf(secrets: SecretsOption | undefined, manager: CheckpointManager | undefined): StateCodec {
  const isAsManager = secrets === undefined && manager !== undefined;
  return isAsManager ? engineOf(manager).codec.withoutClasses() : new StateCodec(redactionOf(secrets));
}

const random = inBulk(randomBytes);
/** Short, because ids are shown in prompts; 70 random bits. */
const ID_CHARS = 14;
