import type { MemoryFields, MemoryKind, MemoryScope } from './memory-record.ts';

/**
 * What happened to a memory. `EXTRACT` keeps what an extractor answered about an episode, so that it is not asked again;
 * `PURGE` is what is left of a memory whose words were removed. `STAND` and `END` tell of no memory but of a session that taught some:
 * where it stood, and that it was deleted there.
 */
export type MemoryOperation =
  | 'ADD'
  | 'UPDATE'
  | 'REINFORCE'
  | 'SUPERSEDE'
  | 'RETRACT'
  | 'PROMOTE'
  | 'EXTRACT'
  | 'PURGE'
  | 'STAND'
  | 'END';

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
  /** The lineage at that moment: what counts once the session itself is gone, if nothing tells where it ended. */
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

/** Which events are wanted; conditions are combined with "and". Answers come in the order of `seq`. */
export type EventQuery = {
  readonly scope?: MemoryScope;
  readonly afterSeq?: number;
  readonly sessionId?: string;
  readonly memoryIds?: readonly string[];
};

/** What a new memory may have to do with; events that fit any part are wanted, once each. */
export type RelatedQuery = {
  readonly scope: MemoryScope;
  readonly keys: readonly string[];
  readonly hashes: readonly string[];
  /** Slots of subjects. */
  readonly slots: readonly { readonly subject: string; readonly slot: string }[];
  /** The newest of these kinds about a subject. */
  readonly kinds: readonly { readonly subject: string; readonly kind: MemoryKind }[];
};

/** The turns of one session, or, without one, those of the scope's run that no session taught. */
export type SeriesQuery = { readonly scope: MemoryScope; readonly sessionId?: string | undefined };

/** What must be true of a memory for events to be appended: nothing happened to it after this event. */
export type Expectation = { readonly memoryId: string; readonly lastSeq: number };

/** What must be true for events to be appended. */
export type AppendConditions = {
  readonly expectations?: readonly Expectation[];
  /** No event that is stored has the hash of one of these. */
  readonly isNew?: boolean;
};

/** Either all events were stored, or none: because a memory moved on, or because the key of an event, or with `isNew` its hash, is stored already. */
export type AppendResult =
  | { readonly status: 'stored'; readonly events: readonly MemoryEvent[] }
  | { readonly status: 'moved' | 'duplicate' };

/** A vector of an event's words, made by one model. Vectors of different models are never compared. */
export type EventVector = { readonly seq: number; readonly vector: Float32Array };

/** `position` grows with every vector that is stored, so that one can read on from there. */
export type StoredVector = EventVector & { readonly position: number };

/** Which vectors of a model are wanted, in the order of their positions. */
export type VectorQuery = { readonly scope: MemoryScope; readonly afterPosition: number };

/** What a purge does: all events and vectors of the memories go, words and all, and what is left to say of them is appended. */
export type Removal = {
  readonly memoryIds: readonly string[];
  readonly tombstones: readonly NewMemoryEvent[];
  /** Events of others that held the same words, as they are from now on, by `seq`; their vectors go, too. */
  readonly rewritten: readonly MemoryEvent[];
};

/** Where memory events live. Dumb on purpose: what they mean is decided above, once for all storages. */
export interface MemoryStorage {
  /** Appends in one transaction, in this order; whoever reads one event can read all that have a smaller `seq`. */
  append(events: readonly NewMemoryEvent[], conditions?: AppendConditions): Promise<AppendResult>;
  readEvents(query: EventQuery): Promise<MemoryEvent[]>;
  readRelated(query: RelatedQuery): Promise<MemoryEvent[]>;
  /** The events of the last turns of a series, newest first. */
  readSeries(query: SeriesQuery): Promise<MemoryEvent[]>;
  /** Vectors of events that are gone meanwhile are left out, and so are those that are stored already. */
  writeVectors(model: string, vectors: readonly EventVector[]): Promise<void>;
  readVectors(model: string, query: VectorQuery): Promise<StoredVector[]>;
  /** Changes with every removal, so that what was read before can be thrown away. */
  readEpoch(): Promise<number>;
  /** Removes words for good, in one transaction. */
  purge(removal: Removal): Promise<void>;
  /** Removes everything. */
  reset(): Promise<void>;
  close(): Promise<void>;
}
