import type { MemoryFields, MemoryScope } from './memory-record.ts';

/**
 * What happened to a memory. `EXTRACT` keeps what an extractor answered about an episode, so that it is not asked again;
 * `PURGE` is what is left of a memory whose words were removed.
 */
export type MemoryOperation =
  | 'ADD'
  | 'UPDATE'
  | 'REINFORCE'
  | 'SUPERSEDE'
  | 'RETRACT'
  | 'PROMOTE'
  | 'EXTRACT'
  | 'PURGE';

/**
 * One stretch of a lineage: the checkpoints of a branch that come after `base` and not after `to`. Ids sort by lineage, so two
 * comparisons decide whether a checkpoint lies in it.
 */
export type LineageSegment = { readonly branch: string; readonly base: string; readonly to: string };

/** Where in the life of a session something was learned; events without a place are seen from everywhere. */
export type EventPlace = {
  readonly sessionId: string;
  readonly branch: string;
  /** The checkpoint that holds what was learned; with `isAfter`, the last one before it. Empty before the first one. */
  readonly checkpointId: string;
  readonly isAfter: boolean;
  /** The lineage at that moment: what counts once the session itself was deleted. */
  readonly lineage: readonly LineageSegment[];
};

/** An event before it was stored. */
export type NewMemoryEvent = {
  readonly memoryId: string;
  readonly operation: MemoryOperation;
  readonly scope: MemoryScope;
  readonly place?: EventPlace | undefined;
  readonly atMs: number;
  readonly fields?: Partial<MemoryFields>;
  /** The words before it, where it changed them. */
  readonly previous?: string | undefined;
  /** No two events have the same key. */
  readonly key?: string | undefined;
  readonly actor?: string | undefined;
  readonly reason?: string | undefined;
  /** What an extractor answered. */
  readonly extracted?: unknown;
};

/** One entry of the append-only log; `seq` is its place in it. */
export type MemoryEvent = NewMemoryEvent & { readonly seq: number };
