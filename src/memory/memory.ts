import { randomBytes } from 'node:crypto';
import { ClosedError, InvalidInputError } from '../core/errors.ts';
import { checkValue, string } from '../core/options.ts';
import type { ForkOptions } from '../manager/branch/branching.ts';
import type { BranchHead } from '../manager/branch/history.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { Differences, type MemoryDifference } from './edit/differences.ts';
import { type ChangeOptions, Editing, type MemoryChange } from './edit/editing.ts';
import { Explaining, type MemoryExplanation, type MemoryHistoryEntry } from './edit/explaining.ts';
import { type PurgeResult, Purging } from './edit/purging.ts';
import { Finding, type SearchOptions, type SearchResult, type SelectOptions } from './find/finding.ts';
import { Rendering, type RenderOptions, type RenderResult } from './find/rendering.ts';
import { type AddResult, Learning } from './learn/learning.ts';
import type { AddOptions } from './learn/proposal.ts';
import type { Embedder } from './log/embedder.ts';
import type { MemoryExtractor } from './log/extractor.ts';
import { toRecord } from './log/fold.ts';
import type { MemoryContext } from './log/memory-context.ts';
import type { MemoryInput } from './log/memory-input.ts';
import { ScopeLogs } from './log/scope-log.ts';
import { VectorIndex } from './log/vector-index.ts';
import { type ViewOptions, Views } from './log/views.ts';
import { checkMemoryOptions } from './memory-options.ts';
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
  /** The clock, for tests. */
  readonly now?: () => number;
};

/** How a rewind treats what was learned after its target: `follow` (default) hides it, `keep` promotes it. */
export type MemoryRewindOptions = ForkOptions & { readonly memory?: 'follow' | 'keep' };

/** Facts about users and earlier work that outlive a run and follow its branches: what a rewind abandons is no longer known. */
export class Memory {
  readonly #context: MemoryContext;
  readonly #manager: CheckpointManager | undefined;
  readonly #finding: Finding;
  readonly #learning: Learning;
  #isClosed = false;

  constructor(options: MemoryOptions = {}) {
    const { path, storage, manager, embedder, extractor, now = Date.now } = checkMemoryOptions(options, 'new Memory()');
    if (path !== undefined && storage !== undefined)
      throw new InvalidInputError('Memory takes a path or a storage, not both.');
    const opened = storage ?? new SqliteMemoryStorage(path === undefined ? {} : { path });
    this.#manager = manager;
    this.#context = {
      storage: opened,
      views: new Views(manager),
      logs: new ScopeLogs(opened),
      vectors: new VectorIndex(opened, embedder),
      extractor,
      now,
      newId: newMemoryId,
    };
    this.#finding = new Finding(this.#context);
    this.#learning = new Learning(this.#context);
  }

  // Learning

  /** Remembers what was said. Resolves when it is durable; what vectors and extractors add is best effort and said in the result. */
  async add(messages: MemoryInput, options: AddOptions): Promise<AddResult> {
    this.#checkOpen();
    return this.#learning.add(messages, checkMemoryOptions(options, 'add()'));
  }

  /** Changes a memory, by adding to its history. */
  async update(id: string, change: string | MemoryChange, options: ChangeOptions = {}): Promise<void> {
    this.#checkOpen();
    const changed = checkMemoryOptions(
      typeof change === 'string' ? { memory: change } : change,
      'the change of update()',
    );
    await new Editing(this.#context).update(id, changed, checkMemoryOptions(options, 'update()'));
  }

  /** Retracts a memory; its history stays. For removing the words themselves there is `purge`. */
  async delete(id: string, options: ChangeOptions = {}): Promise<void> {
    this.#checkOpen();
    await new Editing(this.#context).delete(id, checkMemoryOptions(options, 'delete()'));
  }

  /** Retracts all that is visible of a scope; answers how many that were. */
  async deleteAll(options: MemoryScope & Omit<ChangeOptions, 'expectedVersion'>): Promise<number> {
    this.#checkOpen();
    return new Editing(this.#context).deleteAll(checkMemoryOptions(options, 'deleteAll()'));
  }

  // Looking

  /** What answers a question, best first. */
  async search(query: string, options: SearchOptions): Promise<SearchResult> {
    this.#checkOpen();
    checkValue(query, string, 'The question of search()');
    return this.#finding.search(query, checkMemoryOptions(options, 'search()'));
  }

  /** One memory; undefined if it is not visible from there. */
  async get(id: string, options: ViewOptions = {}): Promise<MemoryRecord | undefined> {
    this.#checkOpen();
    const folded = await this.#finding.get(id, checkMemoryOptions(options, 'get()'));
    return folded === undefined ? undefined : toRecord(folded);
  }

  /** All that is visible of a scope, oldest first. */
  async getAll(options: SelectOptions): Promise<readonly MemoryRecord[]> {
    this.#checkOpen();
    return this.#finding.getAll(checkMemoryOptions(options, 'getAll()'));
  }

  /** Everything that happened to a memory, on all branches, oldest first. */
  async history(id: string, options: ViewOptions = {}): Promise<readonly MemoryHistoryEntry[]> {
    this.#checkOpen();
    return new Explaining(this.#context).history(id, checkMemoryOptions(options, 'history()'));
  }

  /** Which checkpoints and words taught a memory, and what is left of them. */
  async why(id: string, options: ViewOptions = {}): Promise<MemoryExplanation> {
    this.#checkOpen();
    return new Explaining(this.#context).why(id, checkMemoryOptions(options, 'why()'));
  }

  /** What the lineage of the second checkpoint taught that the first one's did not, what it unlearned, and what it changed. */
  async diff(before: string, after: string): Promise<MemoryDifference> {
    this.#checkOpen();
    return new Differences(this.#context).between(before, after);
  }

  /** Fills `{memory}` and `{memory:preferences}` into a prompt: marked as data, within the budget. */
  async render(template: string, options: RenderOptions): Promise<RenderResult> {
    this.#checkOpen();
    checkValue(template, string, 'The template of render()');
    return new Rendering(this.#finding).render(template, checkMemoryOptions(options, 'render()'));
  }

  // Following branches

  /** Lets a memory be seen from every branch and session, as it is seen from there. */
  async promote(
    id: string,
    options: ViewOptions & { readonly actor?: string; readonly reason?: string } = {},
  ): Promise<void> {
    this.#checkOpen();
    await new Editing(this.#context).promote(id, checkMemoryOptions(options, 'promote()'));
  }

  /** Rewinds the session of a checkpoint, like `manager.rewind`, and says what memory does meanwhile. */
  async rewind(idOrPrefix: string, given: MemoryRewindOptions = {}): Promise<BranchHead> {
    this.#checkOpen();
    const { memory = 'follow', ...options } = checkMemoryOptions(given, 'rewind()');
    if (this.#manager === undefined)
      throw new InvalidInputError('A rewind needs the CheckpointManager. Give Memory the option "manager".');
    const changes = memory === 'keep' ? await new Differences(this.#context).sinceCheckpoint(idOrPrefix) : [];
    const head = await this.#manager.rewind(idOrPrefix, options);
    await new Editing(this.#context).keep(
      changes,
      `kept when session "${head.sessionId}" was rewound to ${head.headId}`,
    );
    return head;
  }

  // Forgetting

  /** Removes the words of memories, of all their versions and of what was taken from them, and says where copies may be left. */
  async purge(what: string | MemoryScope, options: { readonly reason?: string } = {}): Promise<PurgeResult> {
    this.#checkOpen();
    return new Purging(this.#context).purge(what, checkMemoryOptions(options, 'purge()'));
  }

  /** Removes everything, of every user. */
  async reset(): Promise<void> {
    this.#checkOpen();
    await this.#context.storage.reset();
  }

  /** Closes the storage. Idempotent. The manager stays open. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#context.storage.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError('The memory was closed. Open it again.');
  }
}

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const ID_CHARS = 14;

/** Short, because ids are shown in prompts; 70 random bits. */
function newMemoryId(): string {
  return `mem_${Array.from(randomBytes(ID_CHARS), (byte) => ALPHABET[byte & 31]).join('')}`;
}
