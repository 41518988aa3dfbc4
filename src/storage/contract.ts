import type { CheckpointHeader } from '../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../core/record/id.ts';
import type { Chunk, ChunkContent, Digest } from '../core/tree/chunk.ts';
import type { JsonValue } from '../core/value/json.ts';

/** One checkpoint on its way into a storage. `body` is what is kept; `header` is the same, parsed, for the storage's indexes. */
export type NewCheckpoint = {
  readonly header: CheckpointHeader;
  readonly body: string;
  readonly digest: Digest;
  readonly root: ChunkContent;
};

/** One checkpoint as a storage gives it back. Of a deleted one only the tombstone's text is left in `body`. */
export type CheckpointRow = {
  readonly id: CheckpointId;
  readonly sessionId: SessionId;
  readonly digest: Digest;
  readonly body: string;
  readonly isDeleted: boolean;
};

/** A row with the root chunk of its state; deleted ones have none. */
export type CheckpointRowWithRoot = CheckpointRow & { readonly root?: ChunkContent };

/**
 * What a name points at: branch heads, tags, pins, marks and the current branch are all refs. So are a branch's lease (who may
 * write), the time at which that lapses (`due`), how far its effect log goes (`log`), what a group of sessions agreed on (`group`), and that it is being brought in (`import`).
 */
export type RefKind = 'branch' | 'tag' | 'pin' | 'mark' | 'current' | 'lease' | 'due' | 'log' | 'group' | 'import';

/** One name of a session. `check` is made by `refCheck` and proves that no bit of it changed. */
export type Ref = {
  readonly sessionId: SessionId;
  readonly kind: RefKind;
  readonly name: string;
  readonly target: string;
  readonly check: string;
};

/**
 * A compare-and-set of one ref. `expect`: the target it must have now; `null`: it must not exist; absent: anything.
 * `target: null` removes it. A change to the target it expects is a check: it writes nothing, and holds until the commit is done.
 */
export type RefChange = {
  readonly kind: RefKind;
  readonly name: string;
  readonly expect?: string | null;
  readonly target: string | null;
};

/** One entry of a branch's effect log. A later row with the same place replaces it: `started` becomes `done` or `failed`. */
export type EffectRow = {
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly ordinal: number;
  readonly body: string;
  readonly result?: ChunkContent;
  readonly digest: Digest;
};

/**
 * An effect on its way into a storage. `expect`: the digest of the row that must stand at its place now; `null`: none may; absent:
 * anything. All conditions are about what stood there before the commit.
 */
export type NewEffect = EffectRow & { readonly expect?: Digest | null };

/**
 * One atomic write. The storage first checks, inside the same transaction and in this order; `refusal.ts` makes the errors:
 * 1. `checkpoint.header.idempotencyKey` was not used in this session (else: `duplicate`, nothing is written);
 * 2. no checkpoint or tombstone has this id already (else: ConflictError with details `id`; a checkpoint is never replaced);
 * 3. every id of `requires` exists, is not deleted, and has the `parentDigest` of the checkpoint whose `parentId` it is: ids outlive a
 *    rewriting of their session, digests do not (else: ConflictError with details `missing`);
 * 4. every `expect` of a ref holds (else: ConflictError with details `sessionId`, `kind`, `name`, `expected`, `found`);
 * 5. every `expect` of an effect holds (else: ConflictError with details `sessionId`, `branch`, `ordinal`).
 * Commits of one session made through one storage object are applied in the order of the calls.
 * Chunks that are already stored are skipped. A commit may refer to chunks it does not bring only if they are
 * reachable from a checkpoint in `requires`: that, and nothing else, keeps the collector away from them.
 */
export type Commit = {
  readonly sessionId: SessionId;
  readonly checkpoint?: NewCheckpoint;
  readonly chunks?: readonly Chunk[];
  readonly effects?: readonly NewEffect[];
  readonly refs?: readonly RefChange[];
  readonly requires?: readonly CheckpointId[];
  /** `relaxed`: survives the process but maybe not a power loss. For marks whose loss is harmless. */
  readonly durability?: 'default' | 'relaxed';
  /** Somebody waits, so that it is not held back for others to share its sync. */
  readonly isUrgent?: boolean;
  /** Another session, whose key a session is under that this begins: it holds the same. Only a storage that encrypts looks at it. */
  readonly keyOf?: SessionId;
};

/** `duplicate` names the checkpoint that an earlier commit with the same idempotency key stored. */
export type CommitResult = { readonly status: 'stored' } | { readonly status: 'duplicate'; readonly id: CheckpointId };

/** Filters are combined with "and"; a key that is absent does not filter. Order is by id, which is the order of lineage. */
export type CheckpointQuery = {
  readonly sessionId?: string;
  readonly branch?: string;
  readonly agentId?: string;
  readonly userId?: string;
  readonly type?: string;
  readonly status?: string;
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly metadata?: { readonly [key: string]: JsonValue };
  readonly idPrefix?: string;
  readonly order?: 'newest' | 'oldest';
  /** Continue after this id (exclusive) in the given order. */
  readonly after?: string;
  readonly limit: number;
  readonly offset?: number;
  /** `live` (default), or also tombstones. */
  readonly include?: 'live' | 'all';
};

/** The checkpoints of a session that fit a query: how many, and of how many the key was removed. */
export type ForgottenCount = {
  readonly sessionId: SessionId;
  readonly checkpoints: number;
  readonly forgotten: number;
};

/** A checkpoint to turn into a tombstone, and the text that stays. */
export type Deletion = { readonly id: CheckpointId; readonly body: string };

/** A tombstone that stands for older ones of its line from now on: its text as it is and as it is to be, and the ones to remove. */
export type TombstoneFold = {
  readonly id: CheckpointId;
  readonly expect: string;
  readonly body: string;
  readonly removes: readonly CheckpointId[];
};

/** The beginning of a branch's effect log: what comes before an ordinal, at most so many. */
export type EffectDrop = {
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly before: number;
  readonly limit: number;
};

/** A part of a list: what comes after a place in its order. */
export type Page<Cursor> = { readonly after?: Cursor; readonly limit: number };

/** Which refs are wanted; a field that is absent does not filter. */
export type RefFilter = { readonly sessionId?: string; readonly kind?: RefKind; readonly name?: string };

/** What is due before a text, and how much of it. */
export type DuePage = { readonly before: string; readonly limit: number };

/** Which effects of a session are wanted. */
export type EffectFilter = { readonly sessionId: string; readonly branch?: string; readonly fromOrdinal?: number };

/** What a collection removed. `bytes` counts what the storage gave back to the disk or to memory. */
export type CollectResult = { readonly chunks: number; readonly bytes: number };

/** Counts and size of a storage. */
export type StorageStats = {
  readonly checkpoints: number;
  readonly tombstones: number;
  readonly chunks: number;
  readonly sessions: number;
  readonly bytes: number;
};

/** Gets what other processes store. Rows of one session come in the order they were committed in. */
export type CheckpointWatcher = {
  readonly onCheckpoints: (rows: readonly CheckpointRow[]) => void;
  /** Told when watching has trouble; it goes on by itself. */
  readonly onError: (error: unknown) => void;
};

/** How to stop watching. Idempotent. */
export type StorageWatch = { close(): Promise<void> };

/**
 * The byte-level contract: chunks, rows and refs, and no knowledge of states. Storages are dumb on purpose; encoding, comparing,
 * retention, redaction and caching live above, once. `storageContract` of `savestate/testing` proves an implementation.
 * Everything returned is the caller's to keep; everything passed in may be kept but not changed.
 */
export interface ChunkStorage {
  /** Names the backend in messages: `memory`, `file`, `sqlite`. */
  readonly kind: string;
  /** Whether it encrypts what it is given. What goes by any other is checked not to be encrypted, before a session is begun there. */
  readonly hasKeys?: boolean;
  /** Limits the owner configured; the manager's retention enforces them. */
  readonly limits: { readonly maxCheckpoints?: number; readonly maxCheckpointsPerUser?: number };
  /** Resolves when the commit is durable. Commits of one process may share one sync. */
  commit(commit: Commit): Promise<CommitResult>;
  /** The chunks in the order asked for; `undefined` where a chunk is not stored. Does not check digests. */
  readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]>;
  /** Every stored chunk reachable from these, themselves included, each once, in any order: one bulk read for a whole state. */
  readReachable(digests: readonly Digest[]): Promise<Chunk[]>;
  readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined>;
  /** Never reads states. Without `sessionId` damaged rows are left out; with it, damage of that session may be a CorruptError. */
  listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]>;
  /** What lists leave out because its key was removed: the sessions with such checkpoints among those that fit. Absent where there are no keys. */
  countForgotten?(query: Omit<CheckpointQuery, 'limit' | 'after' | 'offset'>): Promise<ForgottenCount[]>;
  /** All refs (sessions whose refs cannot be trusted are left out), or those of a session, a kind, a name; ordered by session, kind, name. */
  readRefs(filter?: RefFilter): Promise<Ref[]>;
  /** Refs of kind `due` whose targets sort before this text, least first: what should have been renewed by now, longest ago first. */
  readDue(page: DuePage): Promise<Ref[]>;
  /** The whole effect log of a branch, or from an ordinal on, ordered by branch and ordinal, in one read. */
  readEffects(filter: EffectFilter): Promise<EffectRow[]>;
  /** Sessions in order of their ids; `after` is exclusive. A damaged name is a CorruptError, or, with `onDamaged`, left out: the first page tells. */
  listSessions(page: Page<string> & { readonly onDamaged?: (problem: string) => void }): Promise<SessionId[]>;
  /**
   * Turns checkpoints into tombstones in one transaction, except those that a branch, tag or pin of their session points at, which
   * are left alone unless `force`. Removes every ref of the session that points at a deleted one, and the log that has its id for a
   * name, with its effects. Returns the ids that were deleted now.
   */
  deleteCheckpoints(deletions: readonly Deletion[], options?: { readonly force?: boolean }): Promise<CheckpointId[]>;
  /**
   * Folds tombstones, in one transaction: gives one a new text and removes the others, unless it does not have the expected text any
   * more. What is not deleted is left alone. Returns the ids that were removed. Without it every tombstone stays.
   */
  foldTombstones?(folds: readonly TombstoneFold[]): Promise<CheckpointId[]>;
  /** Removes the first effects of a log, the oldest first; what refers to its places stays. Returns how many. Without it every effect stays. */
  dropEffects?(drop: EffectDrop): Promise<number>;
  /**
   * Removes a session, also a damaged one, with its checkpoints, tombstones, refs and effects. Returns whether it did. With `ifRefs`
   * it does so only if these, and no others, are the session's refs: nobody wrote to it since they were read.
   */
  deleteSession(sessionId: SessionId, options?: { readonly ifRefs?: readonly Ref[] }): Promise<boolean>;
  /**
   * Removes chunks that no live checkpoint and no effect reaches; safe beside commits of any process; gives space back.
   * If damage hides what is needed, it removes nothing and throws a CorruptError that names the damage.
   */
  collect(options?: { readonly signal?: AbortSignal }): Promise<CollectResult>;
  /** Digests of all stored chunks, page by page, in an order of the storage's own; for verify. */
  listChunks(page: Page<Digest>): Promise<Digest[]>;
  /** What the backend's own checks find damaged, in plain words; empty if nothing. */
  checkIntegrity(): Promise<string[]>;
  stats(): Promise<StorageStats>;
  /** The clock that all who use this storage share, in milliseconds since 1970. Without it each goes by its own. */
  now?(): Promise<number>;
  /** Tells of every checkpoint that any process stores from now on, each once, also across lost connections. */
  watch?(watcher: CheckpointWatcher): Promise<StorageWatch>;
  /** Waits for commits under way. Idempotent. */
  close(): Promise<void>;
}
