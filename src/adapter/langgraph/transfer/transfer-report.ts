import type { Place } from '../record/thread-session.ts';
import type { PartFault, SourceEntry } from './thread-source.ts';

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
  /** Checkpoints that were there already. */
  readonly present: number;
  /** What was not stored at all, and why. */
  readonly skipped: readonly TransferNote[];
  /** What was stored, but is not all that was once saved: parts that are lost, left out, or changed. */
  readonly lossy: readonly TransferNote[];
  /** What the source takes up; undefined if it cannot say. */
  readonly bytesBefore?: number;
  /** What the target takes up now; undefined if it cannot say. */
  readonly bytesAfter?: number;
};

/** How far a transfer is. */
export type TransferProgress = {
  /** The thread it is at. */
  readonly threadId: string;
  readonly threadsDone: number;
  readonly threads: number;
  readonly checkpointsDone: number;
  readonly checkpoints: number;
};

/** What every transfer can be told. */
export type TransferOptions = {
  /** Only these; default all. */
  readonly threads?: readonly string[];
  /** Called after every checkpoint. */
  readonly onProgress?: (progress: TransferProgress) => void;
  /** Called with what will be in these lists of the report, as it is found: a transfer that is stopped, or fails, has no report. */
  readonly onNote?: (note: TransferNote, list: 'skipped' | 'lossy') => void;
  /** Stops between two checkpoints. What is stored stays, and the next transfer goes on from there. */
  readonly signal?: AbortSignal;
};

/** A note about a checkpoint. */
export function noteOf({ place, id }: { readonly place: Place; readonly id: string }, reason: string): TransferNote {
  return { threadId: place.threadId, namespace: place.namespace, checkpointId: id, reason };
}

/** A note about a part of one. */
export function notePart(entry: SourceEntry, { channel, path, reason }: PartFault): TransferNote {
  return { ...noteOf(entry, reason), channel, ...(path !== undefined && { path }) };
}
