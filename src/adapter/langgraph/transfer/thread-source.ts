import type {
  ChannelVersions,
  Checkpoint,
  CheckpointMetadata,
  CheckpointPendingWrite,
} from '@langchain/langgraph-checkpoint';
import type { ThreadPlace } from '../record/thread-session.ts';

/** One checkpoint of a source, known by its names alone. */
export type SourceEntry = {
  readonly place: ThreadPlace;
  readonly id: string;
  readonly parentId?: string | undefined;
  /** Set if the source keeps one value for each version of a channel, which forks may have to share. */
  readonly versions?: ChannelVersions | undefined;
};

/** A part of a checkpoint that is not what was once saved, and why. */
export type PartFault = { readonly channel: string; readonly path?: string; readonly reason: string };

/** What was written to a checkpoint, by task and number, and what of it could not be read. */
export type SourceWrites = {
  readonly writes: readonly CheckpointPendingWrite[];
  readonly faults: readonly PartFault[];
};

/** What a checkpoint holds. */
export type SourceContent = SourceWrites & { readonly checkpoint: Checkpoint; readonly metadata: CheckpointMetadata };

/** Writes to a checkpoint that was never stored itself. */
export type StrayWrites = { readonly place: ThreadPlace; readonly id: string; readonly writes: number };

/** A thread of a source. */
export type SourceThread = { readonly threadId: string; readonly checkpoints: number };

/** Where threads are read from. Nothing is ever written there. */
export interface ThreadSource {
  /** Names the source in messages. */
  readonly name: string;
  /** All threads; if some are asked for, others may be left out. */
  listThreads(asked?: readonly string[]): Promise<readonly SourceThread[]>;
  /** All checkpoints of a thread, of all namespaces, in any order. */
  readEntries(threadId: string): Promise<readonly SourceEntry[]>;
  findStrayWrites(threadId: string): Promise<readonly StrayWrites[]>;
  /** Throws a CorruptError for what cannot be read back as a checkpoint. */
  readContent(entry: SourceEntry): Promise<SourceContent>;
  readWrites(entry: SourceEntry): Promise<SourceWrites>;
  close(): Promise<void>;
}

/** Tells the checkpoints of a thread apart. */
export function keyOf({ place, id }: { readonly place: ThreadPlace; readonly id: string | undefined }): string {
  return JSON.stringify([place.namespace, id]);
}
