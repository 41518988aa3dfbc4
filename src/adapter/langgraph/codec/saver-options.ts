import type { ClassCodec } from '../../../core/value/class-codec.ts';
import type { AdapterStorageOptions } from '../../adapter-storage.ts';
import { graphCodecs } from './graph-codecs.ts';
import { messageCodecs } from './message-codecs.ts';

/** Codecs for the classes of LangChain and LangGraph that states hold: give them to a CheckpointManager that looks at them. */
export const langGraphClasses: readonly ClassCodec[] = [...messageCodecs, ...graphCodecs];

/** How a SavestateSaver is made; the classes of a manager must include `langGraphClasses`. */
export type SavestateSaverOptions = AdapterStorageOptions & {
  /**
   * When two runs go on from one checkpoint: `branch` (default) keeps both, the second in a branch of its own; `error` refuses the
   * second with a ConflictError. Updates and runs that begin at a given `checkpoint_id` always may branch off.
   */
  readonly onConflict?: 'branch' | 'error';
  /** Where a put looks for messages that a node changed in place. Default `recent`. */
  readonly inPlace?: InPlace;
};

/**
 * `recent`: in the last 64 messages, and in 256 of the others in turn, so that in a thread of more than 320 an older one that was changed
 * in place is saved within a step for every 256 messages. `all`: in all of them, which takes as long as the thread is.
 */
export type InPlace = 'recent' | 'all';
