import type { Checkpoint } from '../../core/record/checkpoint.ts';

/**
 * The simplest storage to write: whole checkpoints, three methods. `JSON.stringify(checkpoint)` holds everything, and
 * `Checkpoint.fromJSON` reads it back. Forks, effects, tags and gc need more than this; what cannot be done says so.
 */
export interface CheckpointStorage {
  /** Keeps a checkpoint and returns its id; called again with the same id it replaces nothing. */
  save(checkpoint: Checkpoint): Promise<string>;
  /** Returns null or undefined if there is none. */
  load(checkpointId: string): Promise<Checkpoint | null | undefined>;
  /** A user's checkpoints, newest first. */
  listByUser(userId: string, limit: number, offset: number): Promise<Checkpoint[]>;
  /** Optional: a session's checkpoints, newest first. Lets sessions, and saves of objects with an id, go on in another process. */
  listBySession?(sessionId: string, limit: number, offset: number): Promise<Checkpoint[]>;
  /** Optional: lets retention work. */
  delete?(checkpointId: string): Promise<void>;
  /** Optional: called when the manager is closed. */
  close?(): Promise<void>;
}

/** Whether a storage keeps whole checkpoints rather than chunks. */
export function isCheckpointStorage(storage: object): storage is CheckpointStorage {
  return !('commit' in storage) && 'save' in storage && 'load' in storage;
}
