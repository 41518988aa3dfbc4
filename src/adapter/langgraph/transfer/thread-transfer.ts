import { hasErrorCode, InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import type { SourceContent, SourceEntry, SourceThread, ThreadSource } from './thread-source.ts';
import { noteOf, notePart, type TransferNote, type TransferOptions, type TransferReport } from './transfer-report.ts';

/** One checkpoint on its way, and its place among the others. */
export type TransferStep = {
  readonly entry: SourceEntry;
  readonly content: SourceContent;
  readonly family: Family;
};

/** What is known of the relatives of a checkpoint before any is stored. */
export type Family = {
  /** The parent, if the source has it. */
  readonly parent: SourceEntry | undefined;
  /** How many children the source has of it. */
  readonly children: number;
  /** Children of the same parent, itself included. */
  readonly siblings: number;
  /** Whether all other children of its parent have had their turn. */
  readonly isLastChild: boolean;
};

/** What became of a step. */
export type StepOutcome = {
  readonly writes: number;
  /** Why it was not stored. */
  readonly skipped?: TransferNote | undefined;
  readonly lossy: readonly TransferNote[];
};

/** Where threads are brought to. */
export interface ThreadTarget {
  /** Told of all checkpoints of a thread, parents first, before the first of them is stored. */
  prepare?(entries: readonly SourceEntry[]): Promise<void>;
  /** The keys of the checkpoints of a thread that are stored there; see `keyOf`. */
  findStored(threadId: string): Promise<ReadonlySet<string>>;
  /** Throws an InvalidInputError for what it does not take. */
  store(step: TransferStep): Promise<StepOutcome>;
  /** What a checkpoint that is there already lacks there; only targets that can tell have it. */
  examine?(step: TransferStep): Promise<readonly TransferNote[]>;
  /** Told of a checkpoint that could not be read. */
  leaveOut?(step: Omit<TransferStep, 'content'>): Promise<void>;
  /** The bytes it takes up; undefined where nobody knows. */
  measure(): Promise<number | undefined>;
}

/** Tells the checkpoints of a thread apart. */
export function keyOf({ place, id }: Pick<SourceEntry, 'place' | 'id'>): string {
  return JSON.stringify([place.namespace, id]);
}

/** Brings threads from a source to a target, oldest checkpoint first, parents before children. */
export class ThreadTransfer {
  readonly #source: ThreadSource;
  readonly #target: ThreadTarget;
  readonly #options: TransferOptions;
  readonly #notes: { readonly skipped: TransferNote[]; readonly lossy: TransferNote[] } = { skipped: [], lossy: [] };
  readonly #counts = { checkpoints: 0, writes: 0, present: 0, done: 0, threadsDone: 0 };
  readonly #totals = { threads: 0, checkpoints: 0 };

  constructor(source: ThreadSource, target: ThreadTarget, options: TransferOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<TransferReport> {
    this.#options.signal?.throwIfAborted();
    const threads = await this.#chooseThreads();
    this.#totals.threads = threads.length;
    this.#totals.checkpoints = threads.reduce((sum, { checkpoints }) => sum + checkpoints, 0);
    const bytesBefore = await this.#source.measure(this.#options.threads);
    for (const { threadId } of threads) {
      await this.#moveThread(threadId);
      this.#counts.threadsDone++;
    }
    const bytesAfter = await this.#target.measure();
    const { checkpoints, writes, present } = this.#counts;
    return {
      threads: threads.length,
      checkpoints,
      writes,
      present,
      ...this.#notes,
      ...(bytesBefore !== undefined && { bytesBefore }),
      ...(bytesAfter !== undefined && { bytesAfter }),
    };
  }

  async #chooseThreads(): Promise<readonly SourceThread[]> {
    const { threads: asked } = this.#options;
    if (asked !== undefined && !Array.isArray(asked))
      throw new InvalidInputError('threads must be an array of thread ids.', { details: { field: 'threads' } });
    const found = await this.#source.listThreads(asked);
    if (asked === undefined) return found;
    const byId = new Map(found.map((thread) => [thread.threadId, thread]));
    return [...new Set<string>(asked)].map((threadId) => {
      const thread = byId.get(threadId);
      if (thread !== undefined) return thread;
      throw new NotFoundError(`${this.#source.name} has no thread "${threadId}". Nothing was stored.`, {
        details: { threadId },
      });
    });
  }

  async #moveThread(threadId: string): Promise<void> {
    const entries = parentsFirst(await this.#source.readEntries(threadId));
    const families = findFamilies(entries);
    const stored = await this.#target.findStored(threadId);
    if (entries.some((entry) => !stored.has(keyOf(entry)))) await this.#target.prepare?.(entries);
    for (const entry of entries) {
      this.#options.signal?.throwIfAborted();
      if (stored.has(keyOf(entry))) await this.#passBy(entry, families.get(entry) ?? NO_FAMILY);
      else await this.#move(entry, families.get(entry) ?? NO_FAMILY);
      this.#counts.done++;
      this.#tell(threadId);
    }
    for (const stray of await this.#source.findStrayWrites(threadId)) {
      const writes = stray.writes === 1 ? '1 write was' : `${stray.writes} writes were`;
      const reason = `${writes} left out: the checkpoint was never stored.`;
      this.#note('skipped', noteOf(stray, reason));
    }
  }

  /** What an earlier transfer stored, perhaps one that was stopped before it could report, is named again. */
  async #passBy(entry: SourceEntry, family: Family): Promise<void> {
    this.#counts.present++;
    if (this.#target.examine === undefined) return;
    try {
      const content = await this.#source.readContent(entry);
      this.#note('lossy', ...(await this.#target.examine({ entry, content, family })));
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      this.#note('lossy', noteOf(entry, `it is there, but cannot be compared: ${(error as Error).message}`));
    }
  }

  /** What is damaged, or not taken, is noted, and the rest goes on. */
  async #move(entry: SourceEntry, family: Family): Promise<void> {
    try {
      const content = await this.#readContent(entry, family);
      const { writes, skipped, lossy } = await this.#target.store({ entry, content, family });
      this.#counts.writes += writes;
      if (skipped !== undefined) {
        this.#note('skipped', skipped);
        return;
      }
      this.#counts.checkpoints++;
      const faults = [...(entry.doubts ?? []), ...content.faults];
      this.#note('lossy', ...faults.map((fault) => notePart(entry, fault)), ...lossy);
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT') && !hasErrorCode(error, 'INVALID_INPUT')) throw error;
      this.#note('skipped', noteOf(entry, (error as Error).message));
    }
  }

  async #readContent(entry: SourceEntry, family: Family): Promise<SourceContent> {
    try {
      return await this.#source.readContent(entry);
    } catch (error) {
      if (hasErrorCode(error, 'CORRUPT')) await this.#target.leaveOut?.({ entry, family });
      throw error;
    }
  }

  #note(list: 'skipped' | 'lossy', ...notes: readonly TransferNote[]): void {
    this.#notes[list].push(...notes);
    for (const note of notes) this.#options.onNote?.(note, list);
  }

  #tell(threadId: string): void {
    const { done, threadsDone } = this.#counts;
    const { threads, checkpoints } = this.#totals;
    this.#options.onProgress?.({ threadId, threadsDone, threads, checkpointsDone: done, checkpoints });
  }
}

const NO_FAMILY: Family = { parent: undefined, children: 0, siblings: 1, isLastChild: true };

/** By id, which is by age; but a parent always before its children, whatever their clocks said. */
function parentsFirst(entries: readonly SourceEntry[]): SourceEntry[] {
  const byKey = new Map(entries.map((entry) => [keyOf(entry), entry]));
  const ordered = new Set<SourceEntry>();
  for (const entry of entries.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))) {
    const line = new Set<SourceEntry>();
    for (let at: SourceEntry | undefined = entry; at !== undefined && !ordered.has(at) && !line.has(at); ) {
      line.add(at);
      at = findParent(byKey, at);
    }
    for (const one of [...line].toReversed()) ordered.add(one);
  }
  return [...ordered];
}

function findParent(byKey: ReadonlyMap<string, SourceEntry>, entry: SourceEntry): SourceEntry | undefined {
  return entry.parentId === undefined ? undefined : byKey.get(keyOf({ place: entry.place, id: entry.parentId }));
}

function findFamilies(ordered: readonly SourceEntry[]): ReadonlyMap<SourceEntry, Family> {
  const byKey = new Map(ordered.map((entry) => [keyOf(entry), entry]));
  const children = new Map<SourceEntry, SourceEntry[]>();
  for (const entry of ordered) {
    const parent = findParent(byKey, entry);
    if (parent === undefined) continue;
    const known = children.get(parent);
    if (known === undefined) children.set(parent, [entry]);
    else known.push(entry);
  }
  return new Map(
    ordered.map((entry) => {
      const parent = findParent(byKey, entry);
      const siblings = (parent === undefined ? undefined : children.get(parent)) ?? [entry];
      const own = children.get(entry)?.length ?? 0;
      return [
        entry,
        { parent, children: own, siblings: siblings.length, isLastChild: siblings.at(-1) === entry } satisfies Family,
      ];
    }),
  );
}
