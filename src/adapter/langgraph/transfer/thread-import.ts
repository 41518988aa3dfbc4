import { type BaseCheckpointSaver, type CheckpointPendingWrite, uuid5 } from '@langchain/langgraph-checkpoint';
import { hasErrorCode, InvalidInputError, messageOf } from '../../../core/errors.ts';
import { configOf } from '../record/thread-session.ts';
import { SavestateSaver } from '../saver/savestate-saver.ts';
import { SaverSource } from './saver-source.ts';
import { keyOf, type PartFault, type SourceEntry, type ThreadSource } from './thread-source.ts';
import {
  type StepOutcome,
  type ThreadTarget,
  ThreadTransfer,
  type TransferOptions,
  type TransferReport,
  type TransferStep,
  writeCalls,
} from './thread-transfer.ts';

/** How threads are imported. */
export type ImportOptions = TransferOptions;

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
  return new ThreadTransfer(opened, new ImportTarget(opened, saver), options).run();
}

/** Puts what an official saver stored, as its graph would have. */
class ImportTarget implements ThreadTarget {
  readonly there: SaverSource;
  readonly #source: ThreadSource;
  readonly #saver: SavestateSaver;
  /** Of checkpoints with several children, the writes that a child has not taken yet. */
  readonly #untaken = new Map<string, readonly CheckpointPendingWrite[]>();

  constructor(source: ThreadSource, saver: SavestateSaver) {
    this.#source = source;
    this.#saver = saver;
    this.there = new SaverSource(saver);
  }

  async prepare(): Promise<void> {
    this.#untaken.clear();
  }

  /** Writes go first: a checkpoint that is there tells the next import that everything about it is. */
  async store({ entry, content, parent, children, siblings }: TransferStep): Promise<StepOutcome> {
    const { checkpoint, metadata, writes } = content;
    const { place, id, parentId } = entry;
    if (children.length > 1) this.#untaken.set(keyOf(entry), writes);
    const lossy = children.length > 1 ? [] : await this.#putWrites(entry, writes);
    if (parent !== undefined && siblings.length > 1) {
      const own = await this.#takeWrites(parent, { isUpdate: metadata.source === 'update' });
      const left = siblings.at(-1) === entry ? (this.#untaken.get(keyOf(parent)) ?? []) : [];
      await this.#putWrites(parent, [...own, ...left]);
    }
    // Whatever its saver allowed, a second child was meant: nobody races here.
    const isMeant = parentId !== undefined && { metadata: { checkpoint_id: parentId } };
    await this.#saver.put({ ...configOf(place, parentId), ...isMeant }, { ...checkpoint, id }, metadata, {
      ...Object.fromEntries(Object.keys(checkpoint.channel_values).map((channel) => [channel, 0])),
      ...checkpoint.channel_versions,
    });
    return { writes: writes.length - lossy.length, lossy };
  }

  /** What would have gone with the last child is stored without it. */
  async leaveOut({ entry, parent, siblings }: Omit<TransferStep, 'content'>): Promise<void> {
    if (parent === undefined || siblings.length === 1 || siblings.at(-1) !== entry) return;
    const untaken = this.#untaken.get(keyOf(parent)) ?? (await this.#source.readWrites(parent)).writes;
    await this.#putWrites(parent, untaken);
  }

  /**
   * The writes of a parent that made this child. The official savers keep them together for all children; those of an update are
   * known by their task, and the others belong to runs. The last child takes along what no other took.
   */
  async #takeWrites(
    parent: SourceEntry,
    { isUpdate }: { readonly isUpdate: boolean },
  ): Promise<readonly CheckpointPendingWrite[]> {
    const { writes } = await this.#source.readWrites(parent);
    const updateTask = uuid5('__interrupt__', parent.id);
    const fitting = writes.filter(([taskId]) => (taskId === updateTask) === isUpdate);
    // An update may have been given a task of the caller's choice.
    const own = fitting.length === 0 && isUpdate ? writes : fitting;
    const tasks = new Set(own.map(([taskId]) => taskId));
    const untaken = (this.#untaken.get(keyOf(parent)) ?? writes).filter(([taskId]) => !tasks.has(taskId));
    this.#untaken.set(keyOf(parent), untaken);
    return own;
  }

  /** Stores writes, each task's together, and tells which could not be. */
  async #putWrites({ place, id }: SourceEntry, writes: readonly CheckpointPendingWrite[]): Promise<PartFault[]> {
    const refused: PartFault[] = [];
    for (const { taskId, call } of writeCalls(writes)) {
      try {
        await this.#saver.putWrites(configOf(place, id), call, taskId);
      } catch (error) {
        if (!hasErrorCode(error, 'INVALID_INPUT')) throw error;
        const reason = `the writes of task ${taskId} were left out: ${messageOf(error)}`;
        refused.push(...call.map(([channel]) => ({ channel, reason })));
      }
    }
    return refused;
  }
}
