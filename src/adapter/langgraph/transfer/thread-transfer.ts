import { type CheckpointPendingWrite, type PendingWrite, WRITES_IDX_MAP } from '@langchain/langgraph-checkpoint';
import { hasErrorCode, messageOf, NotFoundError } from '../../../core/errors.ts';
import { groupBy } from '../../../core/group-by.ts';
import { callback, checkOptions, flag, listOf, signal, string } from '../../../core/options.ts';
import type { ThreadPlace } from '../record/thread-session.ts';
import { findDoubts, findForkedVersions } from './forked-versions.ts';
import { keyOf, type PartFault, type SourceContent, type SourceEntry, type ThreadSource } from './thread-source.ts';

/** Where something is, and what is to be said about it. */
export type TransferNote = {
  readonly threadId: string;
  readonly namespace: string;
  readonly checkpointId: string;
  /** Set if it is about one channel. */
  readonly channel?: string;
  /** Where in the value of the channel. */
  readonly path?: string;
  readonly reason: string;
};

/** What an import or export did. */
export type TransferReport = {
  readonly threads: number;
  /** Checkpoints and writes that were stored now. */
  readonly checkpoints: number;
  readonly writes: number;
  /** Checkpoints that were there already; they are not looked at again. */
  readonly present: number;
  /** What was not stored at all, and why. */
  readonly skipped: readonly TransferNote[];
  /** What was stored, but is not all that was once saved: parts that are lost, left out, or changed. */
  readonly lossy: readonly TransferNote[];
};

/** What every transfer can be told. */
export type TransferOptions = {
  /** Only these; default all. */
  readonly threads?: readonly string[];
  /** Called after every checkpoint. */
  readonly onProgress?: (progress: { readonly checkpointsDone: number; readonly checkpoints: number }) => void;
  /** Called with what will be in these lists of the report, as it is found: a transfer that is stopped, or fails, has no report. */
  readonly onNote?: (note: TransferNote, list: 'skipped' | 'lossy') => void;
  /** Stops between two checkpoints. What is stored stays, and the next transfer goes on from there. */
  readonly signal?: AbortSignal;
};

const OPTIONS = { threads: listOf(string), onProgress: callback, onNote: callback, signal, allowLossy: flag };

/** One checkpoint on its way, and its relatives in the source. */
export type TransferStep = Relatives & { readonly entry: SourceEntry; readonly content: SourceContent };

/** What is known of the relatives of a checkpoint before any is stored. */
export type Relatives = {
  readonly parent: SourceEntry | undefined;
  readonly children: readonly SourceEntry[];
  /** The children of its parent, itself included, in the order in which they are stored. */
  readonly siblings: readonly SourceEntry[];
};

/** What became of a step: how many writes were stored, why it was not stored, what of it is not whole. */
export type StepOutcome = {
  readonly writes: number;
  readonly skipped?: PartFault;
  readonly lossy: readonly PartFault[];
};

/** Where threads are brought to. */
export interface ThreadTarget {
  /** What is there already. */
  readonly there: Pick<ThreadSource, 'readEntries'>;
  /** Told of all checkpoints of a thread, parents first, before the first of them is stored. */
  prepare(entries: readonly SourceEntry[]): Promise<void>;
  /** Throws an InvalidInputError for what it does not take. */
  store(step: TransferStep): Promise<StepOutcome>;
  /** Told of a checkpoint that could not be read. */
  leaveOut?(step: Omit<TransferStep, 'content'>): Promise<void>;
}

/** Brings threads from a source to a target, oldest checkpoint first, parents before children. */
export class ThreadTransfer {
  readonly #source: ThreadSource;
  readonly #target: ThreadTarget;
  readonly #options: TransferOptions;
  readonly #notes: { readonly skipped: TransferNote[]; readonly lossy: TransferNote[] } = { skipped: [], lossy: [] };
  readonly #counts = { checkpoints: 0, writes: 0, present: 0 };
  readonly #progress = { checkpointsDone: 0, checkpoints: 0 };

  constructor(source: ThreadSource, target: ThreadTarget, options: TransferOptions) {
    checkOptions(options, OPTIONS, 'A transfer of threads');
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<TransferReport> {
    this.#options.signal?.throwIfAborted();
    const threads = await this.#chooseThreads();
    this.#progress.checkpoints = threads.reduce((sum, { checkpoints }) => sum + checkpoints, 0);
    for (const { threadId } of threads) await this.#moveThread(threadId);
    return { threads: threads.length, ...this.#counts, ...this.#notes };
  }

  async #chooseThreads() {
    const { threads: asked } = this.#options;
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
    const relatives = findRelatives(entries);
    const forked = findForkedVersions(entries);
    const stored = new Set((await this.#target.there.readEntries(threadId)).map(keyOf));
    if (entries.some((entry) => !stored.has(keyOf(entry)))) await this.#target.prepare(entries);
    for (const entry of entries) {
      this.#options.signal?.throwIfAborted();
      if (stored.has(keyOf(entry))) this.#counts.present++;
      else await this.#move({ entry, ...relatives(entry) }, findDoubts(entry, forked.get(entry)));
      this.#progress.checkpointsDone++;
      this.#options.onProgress?.({ ...this.#progress });
    }
    for (const stray of await this.#source.findStrayWrites(threadId)) {
      const writes = stray.writes === 1 ? '1 write was' : `${stray.writes} writes were`;
      this.#note('skipped', stray, { reason: `${writes} left out: the checkpoint was never stored.` });
    }
  }

  /** What is damaged, or not taken, is noted, and the rest goes on. */
  async #move(step: Omit<TransferStep, 'content'>, doubts: readonly PartFault[]): Promise<void> {
    const { entry } = step;
    try {
      const content = await this.#readContent(step);
      const { writes, skipped, lossy } = await this.#target.store({ ...step, content });
      this.#counts.writes += writes;
      if (skipped !== undefined) return this.#note('skipped', entry, skipped);
      this.#counts.checkpoints++;
      this.#note('lossy', entry, ...doubts, ...content.faults, ...lossy);
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT') && !hasErrorCode(error, 'INVALID_INPUT')) throw error;
      this.#note('skipped', entry, { reason: messageOf(error) });
    }
  }

  async #readContent(step: Omit<TransferStep, 'content'>): Promise<SourceContent> {
    try {
      return await this.#source.readContent(step.entry);
    } catch (error) {
      if (hasErrorCode(error, 'CORRUPT')) await this.#target.leaveOut?.(step);
      throw error;
    }
  }

  #note(
    list: 'skipped' | 'lossy',
    { place, id }: { readonly place: ThreadPlace; readonly id: string },
    ...faults: readonly Pick<TransferNote, 'channel' | 'path' | 'reason'>[]
  ): void {
    for (const { channel, path, reason } of faults) {
      const part = { ...(channel !== undefined && { channel }), ...(path !== undefined && { path }) };
      const note = { threadId: place.threadId, namespace: place.namespace, checkpointId: id, ...part, reason };
      this.#notes[list].push(note);
      this.#options.onNote?.(note, list);
    }
  }
}

/** By id, which is by age; but a parent always before its children, whatever their clocks said. */
function parentsFirst(entries: readonly SourceEntry[]): SourceEntry[] {
  const byKey = new Map(entries.map((entry) => [keyOf(entry), entry]));
  const ordered = new Set<SourceEntry>();
  for (const entry of entries.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))) {
    const line = new Set<SourceEntry>();
    for (let at: SourceEntry | undefined = entry; at !== undefined && !ordered.has(at) && !line.has(at); ) {
      line.add(at);
      at = byKey.get(keyOf({ place: at.place, id: at.parentId }));
    }
    for (const one of [...line].toReversed()) ordered.add(one);
  }
  return [...ordered];
}

function findRelatives(ordered: readonly SourceEntry[]): (entry: SourceEntry) => Relatives {
  const byKey = new Map(ordered.map((entry) => [keyOf(entry), entry]));
  const parentOf = ({ place, parentId }: SourceEntry) => byKey.get(keyOf({ place, id: parentId }));
  const families = groupBy(ordered, parentOf);
  return (entry) => {
    const parent = parentOf(entry);
    const siblings = (parent && families.get(parent)) ?? [entry];
    return { parent, siblings, children: families.get(entry) ?? [] };
  };
}

/** Writes as the calls of `putWrites` that store them. Special ones have a call of their own: they would move the numbers of the others. */
export function writeCalls(
  writes: readonly CheckpointPendingWrite[],
): { readonly taskId: string; readonly call: PendingWrite[] }[] {
  const calls = new Map<string, { readonly taskId: string; readonly call: PendingWrite[] }>();
  for (const [taskId, channel, value] of writes) {
    const key = JSON.stringify([taskId, channel in WRITES_IDX_MAP]);
    const known = calls.get(key) ?? { taskId, call: [] };
    known.call.push([channel, value]);
    calls.set(key, known);
  }
  return [...calls.values()];
}
