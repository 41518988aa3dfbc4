import { isLost } from '../../core/errors.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow, ChunkStorage, TombstoneFold } from '../../storage/contract.ts';
import { tryCommit } from '../../storage/refusal.ts';
import {
  ENDED,
  eachSession,
  endedTarget,
  findCurrentBranch,
  findEnded,
  readPages,
  sealTombstone,
  toEntry,
} from '../engine/records.ts';

/** At most so many of the newest tombstones of a session stay as they are, so that who asks for a checkpoint is told when and why it was deleted. */
const KEPT_TOMBSTONES = 100;
/** So many deletions are worth a look at their session; of a long one, half as many as it has rows. */
const LOOK_AFTER = 256;
const BATCH = 50;
/** Tombstones that one call removes at most, so that none holds up the storage for long. */
const MAX_REMOVED = 250;
const MAX_SESSIONS = 10_000;

/** Deletions since sessions were looked at, in which they were, and after how many these are looked at again. */
type Look = { deleted: number; dueAfter: number; readonly sessions: Set<SessionId> };

/**
 * Folds runs of tombstones into the newest of each, and removes those that nothing was saved on: whatever is deleted over the years, a
 * session keeps at most one tombstone for each checkpoint, besides its newest ones. The lineage goes on at the parent of the oldest that
 * was folded.
 */
export class TombstoneFolder {
  readonly #storage: ChunkStorage;
  readonly #looks = new Map<string, Look>();

  constructor(storage: ChunkStorage) {
    this.#storage = storage;
  }

  /**
   * Counts what was deleted in a session, and folds now and then: so often that all processes together bound its size. Where a storage
   * bounds how much it holds, all sessions together keep about as many tombstones as there may be checkpoints.
   */
  async note(sessionId: SessionId, deleted: readonly CheckpointId[]): Promise<void> {
    const [first] = deleted;
    if (first === undefined || this.#storage.foldTombstones === undefined) return;
    const isBounded = this.#storage.limits.maxCheckpoints !== undefined;
    const key = isBounded ? '' : sessionId;
    const look = this.#looks.get(key) ?? this.#begin(key, first);
    look.deleted += deleted.length;
    look.sessions.add(sessionId);
    if (look.deleted < look.dueAfter) return;
    const next = { deleted: 0, dueAfter: look.dueAfter, sessions: new Set<SessionId>() };
    this.#looks.set(key, next);
    const kept = await this.#countKept();
    for (const id of look.sessions) {
      const rows = await this.fold(id, kept);
      if (!isBounded) next.dueAfter = Math.max(LOOK_AFTER, rows / 2);
    }
  }

  #begin(key: string, first: CheckpointId): Look {
    if (this.#looks.size >= MAX_SESSIONS) this.#looks.clear();
    const { maxCheckpoints } = this.#storage.limits;
    // As if some had been deleted already, a different number each time: many short processes look as often as one long one.
    const deleted = maxCheckpoints === undefined ? Number.parseInt(first.slice(-4), 32) % LOOK_AFTER || 0 : 0;
    const dueAfter = maxCheckpoints === undefined ? LOOK_AFTER : Math.floor(maxCheckpoints / 2) + 1;
    const look: Look = { deleted, dueAfter, sessions: new Set() };
    this.#looks.set(key, look);
    return look;
  }

  /** How many tombstones a session may keep as they are. */
  async #countKept(): Promise<number> {
    const { maxCheckpoints } = this.#storage.limits;
    if (maxCheckpoints === undefined) return KEPT_TOMBSTONES;
    const { sessions } = await this.#storage.stats();
    return Math.min(KEPT_TOMBSTONES, Math.floor(maxCheckpoints / 2 / Math.max(1, sessions)));
  }

  /** Folds what can be folded in every session. */
  async foldAll(signal?: AbortSignal): Promise<void> {
    if (this.#storage.foldTombstones === undefined) return;
    const kept = await this.#countKept();
    const breather = new Breather();
    for await (const sessionId of eachSession(this.#storage, { onDamaged: () => undefined })) {
      signal?.throwIfAborted();
      await this.fold(sessionId, kept);
      await breather.breathe();
    }
  }

  /** Folds what can be folded in a session, a damaged one excepted. Returns how many rows it has. */
  async fold(sessionId: SessionId, kept = KEPT_TOMBSTONES): Promise<number> {
    const place = { sessionId, order: 'newest', include: 'all' } as const;
    let count = 0;
    try {
      const deleted: CheckpointId[] = [];
      for await (const rows of readPages(this.#storage, place)) {
        count += rows.length;
        deleted.push(...rows.flatMap(({ id, isDeleted }) => (isDeleted ? [id] : [])));
      }
      const refs = await this.#storage.readRefs({ sessionId });
      const branches = new Set(refs.flatMap(({ kind, name }) => (kind === 'branch' ? [name] : [])));
      // What is being brought in has no branches yet.
      if (deleted.length <= kept || branches.size === 0) return count;
      const current = findCurrentBranch(refs);
      const headless = branches.has(current) ? undefined : current;
      const folding = new Folding(this.#storage, {
        sessionId,
        deleted: new Set(deleted),
        headless,
        kept,
      });
      for await (const rows of readPages(this.#storage, place)) await folding.read(rows);
      await folding.finish();
    } catch (error) {
      if (!isLost(error)) throw error;
    }
    return count;
  }
}

/** What is known of a session before it is read. */
type Known = {
  readonly sessionId: SessionId;
  /** What was deleted before: nothing is saved on it any more. What is deleted meanwhile may have children that were not read. */
  readonly deleted: ReadonlySet<CheckpointId>;
  /** The branch that is current by its name only: its end says that it was there. */
  readonly headless: string | undefined;
  /** So many of the newest tombstones stay as they are. */
  readonly kept: number;
};

/** Reads a session, newest first: a child comes before its parent. Then folds its tombstones. */
class Folding {
  readonly #storage: ChunkStorage;
  readonly #known: Known;
  readonly #breather = new Breather();
  /** Tombstones that may be folded, and how many were saved on each that was not read yet, or may be. */
  readonly #old = new Map<CheckpointId, { readonly tombstone: Tombstone; readonly digest: Digest }>();
  readonly #children = new Map<CheckpointId, number>();
  /** The newest tombstone, and those that nothing was saved on. */
  #newest: CheckpointRow | undefined;
  readonly #ends: CheckpointId[] = [];
  #tombstones = 0;

  constructor(storage: ChunkStorage, known: Known) {
    this.#storage = storage;
    this.#known = known;
  }

  async read(rows: readonly CheckpointRow[]): Promise<void> {
    await this.#breather.each(rows, (row) => this.#take(row));
  }

  #take(row: CheckpointRow): void {
    const { id, parentId, tombstone } = toEntry(row);
    if (tombstone === undefined) this.#children.delete(id);
    else if (this.#takeTombstone(row, tombstone)) return;
    if (parentId !== undefined) this.#children.set(parentId, (this.#children.get(parentId) ?? 0) + 1);
  }

  /** Returns whether it goes, because nothing was saved on it. */
  #takeTombstone(row: CheckpointRow, tombstone: Tombstone): boolean {
    this.#newest ??= row;
    if (this.#tombstones++ < this.#known.kept || !this.#known.deleted.has(row.id)) return false;
    const isEnd = !this.#children.has(row.id) && tombstone.branch !== this.#known.headless;
    if (isEnd) this.#ends.push(row.id);
    else this.#old.set(row.id, { tombstone, digest: row.digest });
    return isEnd;
  }

  async finish(): Promise<void> {
    let folds: TombstoneFold[] = [];
    let removes = 0;
    for (const fold of this.#folds()) {
      folds.push(fold);
      removes += fold.removes.length;
      if (folds.length < BATCH && removes < MAX_REMOVED) continue;
      await this.#storage.foldTombstones?.(folds);
      [folds, removes] = [[], 0];
    }
    if (folds.length > 0) await this.#storage.foldTombstones?.(folds);
    await this.#removeEnds();
  }

  /** Runs of tombstones of one branch, each the only child of the next one: all become the first. */
  *#folds(): Generator<TombstoneFold> {
    for (const [id, { tombstone: tip, digest }] of this.#old) {
      const removes: CheckpointId[] = [];
      let last = tip;
      let { folded = 0 } = tip;
      for (
        let next = this.#follow(last);
        next !== undefined && removes.length < MAX_REMOVED;
        next = this.#follow(last)
      ) {
        removes.push(next.id);
        folded += 1 + (next.folded ?? 0);
        this.#old.delete(next.id);
        last = next;
      }
      if (removes.length === 0) continue;
      const { parentId: _, ...rest } = tip;
      const parent = last.parentId === undefined ? {} : { parentId: last.parentId };
      const tombstone = { ...rest, ...parent, folded, foldedFrom: last.foldedFrom ?? last.id };
      yield { id, expect: sealTombstone(tip, digest), body: sealTombstone(tombstone, digest), removes };
    }
  }

  #follow({ parentId, branch }: Tombstone): Tombstone | undefined {
    const parent = parentId && this.#old.get(parentId)?.tombstone;
    return parent?.branch === branch && this.#children.get(parent.id) === 1 ? parent : undefined;
  }

  /** Removes what nothing was saved on, children first, once it is noted. */
  async #removeEnds(): Promise<void> {
    const [first] = this.#ends;
    if (this.#newest === undefined || first === undefined || !(await this.#noteEnds(first))) return;
    const { id, body } = this.#newest;
    for (let at = 0; at < this.#ends.length; at += MAX_REMOVED) {
      const removes = this.#ends.slice(at, at + MAX_REMOVED);
      await this.#storage.foldTombstones?.([{ id, expect: body, body, removes }]);
    }
  }

  /** Notes up to where they went; false if the session is gone, or another process is at it. */
  async #noteEnds(newest: CheckpointId): Promise<boolean> {
    const { sessionId } = this.#known;
    const refs = await this.#storage.readRefs({ sessionId });
    const head = refs.find(({ kind }) => kind === 'branch')?.target as CheckpointId | undefined;
    const expect = findEnded(refs) ?? null;
    const target = endedTarget(newest);
    if (head === undefined || (expect !== null && expect >= target)) return head !== undefined;
    return tryCommit(this.#storage, { sessionId, requires: [head], refs: [{ ...ENDED, expect, target }] });
  }
}
