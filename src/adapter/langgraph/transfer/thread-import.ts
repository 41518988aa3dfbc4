import type { RunnableConfig } from '@langchain/core/runnables';
import { type BaseCheckpointSaver, type CheckpointPendingWrite, uuid5 } from '@langchain/langgraph-checkpoint';
import { hasErrorCode, InvalidInputError } from '../../../core/errors.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { configOf } from '../record/thread-session.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';
import { SaverSource } from './saver-source.ts';
import type { SourceEntry, ThreadSource } from './thread-source.ts';
import { keyOf, type StepOutcome, type ThreadTarget, ThreadTransfer, type TransferStep } from './thread-transfer.ts';
import { notePart, type TransferNote, type TransferOptions, type TransferReport } from './transfer-report.ts';
import { writesByTask } from './writes-by-task.ts';

/** How threads are imported. */
export type ImportOptions = TransferOptions & {
  /** Where the saver keeps its threads, so that the report can say how much that takes up. */
  readonly storage?: Pick<ChunkStorage, 'stats'>;
};

/**
 * Brings threads of an official saver, or of a database that one wrote, into ours: states, metadata, forks, subgraphs and pending
 * writes, under the same ids. What is there already is left alone, so that an import can be stopped and run again.
 */
export async function importThreads(
  source: ThreadSource | BaseCheckpointSaver,
  saver: SavestateSaver,
  options: ImportOptions = {},
): Promise<TransferReport> {
  if (!(saver instanceof SavestateSaver))
    throw new InvalidInputError('importThreads brings threads into a SavestateSaver.');
  const opened = 'readEntries' in source ? source : new SaverSource(source);
  return new ThreadTransfer(opened, new ImportTarget(opened, saver, options), options).run();
}

/** Puts what an official saver stored, as its graph would have. */
class ImportTarget implements ThreadTarget {
  readonly #source: ThreadSource;
  readonly #saver: SavestateSaver;
  readonly #storage: ImportOptions['storage'];
  /** Of checkpoints with several children, the writes that a child has not taken yet. */
  readonly #untaken = new Map<string, readonly CheckpointPendingWrite[]>();

  constructor(source: ThreadSource, saver: SavestateSaver, { storage }: ImportOptions) {
    this.#source = source;
    this.#saver = saver;
    this.#storage = storage;
  }

  async findStored(threadId: string): Promise<ReadonlySet<string>> {
    this.#untaken.clear();
    const keys = new Set<string>();
    for await (const { config } of this.#saver.listMetadata({ configurable: { thread_id: threadId } })) {
      const { checkpoint_ns: namespace, checkpoint_id: id } = config.configurable ?? {};
      keys.add(keyOf({ place: { threadId, namespace }, id }));
    }
    return keys;
  }

  /** Writes go first: a checkpoint that is there tells the next import that everything about it is. */
  async store({ entry, content, family }: TransferStep): Promise<StepOutcome> {
    const { checkpoint, metadata } = content;
    const lossy: TransferNote[] = [];
    const hasForks = family.children > 1;
    if (hasForks) this.#untaken.set(keyOf(entry), content.writes);
    else lossy.push(...(await this.#putWrites(entry, content.writes)));
    if (family.parent !== undefined && family.siblings > 1) {
      const isUpdate = metadata.source === 'update';
      const own = await this.#takeWrites(family.parent, { isUpdate, isLast: family.isLastChild });
      await this.#putWrites(family.parent, own);
    }
    await this.#saver.put(parentConfig(entry), { ...checkpoint, id: entry.id }, metadata, {
      ...Object.fromEntries(Object.keys(checkpoint.channel_values).map((channel) => [channel, 0])),
      ...checkpoint.channel_versions,
    });
    return { writes: content.writes.length - lossy.length, lossy };
  }

  /** What would have gone with the last child is stored without it. */
  async leaveOut({ family: { parent, siblings, isLastChild } }: Omit<TransferStep, 'content'>): Promise<void> {
    if (parent === undefined || siblings === 1 || !isLastChild) return;
    const untaken = this.#untaken.get(keyOf(parent)) ?? (await this.#source.readWrites(parent)).writes;
    await this.#putWrites(parent, untaken);
  }

  /**
   * The writes of a parent that made this child. The official savers keep them together for all children; those of an update are
   * known by their task, and the others belong to runs. The last child takes along what no other took.
   */
  async #takeWrites(
    parent: SourceEntry,
    { isUpdate, isLast }: { readonly isUpdate: boolean; readonly isLast: boolean },
  ): Promise<readonly CheckpointPendingWrite[]> {
    const { writes } = await this.#source.readWrites(parent);
    const updateTask = uuid5('__interrupt__', parent.id);
    const fitting = writes.filter(([taskId]) => (taskId === updateTask) === isUpdate);
    // An update may have been given a task of the caller's choice.
    const own = fitting.length === 0 && isUpdate ? writes : fitting;
    const tasks = new Set(own.map(([taskId]) => taskId));
    const untaken = (this.#untaken.get(keyOf(parent)) ?? writes).filter(([taskId]) => !tasks.has(taskId));
    this.#untaken.set(keyOf(parent), untaken);
    return isLast ? [...own, ...untaken] : own;
  }

  /** Stores writes, each task's in one call, and tells which could not be. */
  async #putWrites(entry: SourceEntry, writes: readonly CheckpointPendingWrite[]): Promise<TransferNote[]> {
    const refused: TransferNote[] = [];
    const config = configOf(entry.place, entry.id);
    for (const { taskId, calls } of writesByTask(writes)) {
      try {
        for (const call of calls) await this.#saver.putWrites(config, call, taskId);
      } catch (error) {
        if (!hasErrorCode(error, 'INVALID_INPUT')) throw error;
        const reason = `the writes of task ${taskId} were left out: ${(error as Error).message}`;
        refused.push(...calls.flat().map(([channel]) => notePart(entry, { channel, reason })));
      }
    }
    return refused;
  }

  async measure(): Promise<number | undefined> {
    return (await this.#storage?.stats())?.bytes;
  }
}

/** Where the checkpoint is put. Whatever its saver allowed, a second child was meant: nobody races here. */
function parentConfig({ place, parentId }: SourceEntry): RunnableConfig {
  if (parentId === undefined) return { configurable: { thread_id: place.threadId, checkpoint_ns: place.namespace } };
  return { ...configOf(place, parentId), metadata: { checkpoint_id: parentId } };
}
