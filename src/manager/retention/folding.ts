import { hasErrorCode, isLost } from '../../core/errors.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow, ChunkStorage, TombstoneFold } from '../../storage/contract.ts';
import {
  ENDED,
  eachSession,
  endedTarget,
  findCurrentBranch,
  findEnded,
  parseRow,
  parseTombstone,
  readPages,
  sealTombstone,
} from '../engine/records.ts';

/** At most so many of the newest tombstones of a session stay as they are, so that who asks for a checkpoint is told when and why it was deleted. */
const KEPT_TOMBSTONES = 100;
/** So many deletions are worth a look at their session; of a long one, half as many as it has rows. */
const LOOK_AFTER = 256;
/** Folds that are made at once. */
const BATCH = 50;
/** Tombstones that one call removes at most, so that none holds up the storage for long. */
const MAX_REMOVED = 250;
const MAX_SESSIONS = 10_000;

/** Deleted checkpoints of one line, newest first, that become one. */
type Run = {
  readonly row: CheckpointRow;
  readonly tip: Tombstone;
  readonly removes: CheckpointId[];
  last: Tombstone;
  folded: number;
};

/** What is known of a checkpoint before it is read: who was saved on top of it. */
type Children = { count: number; run: Run | undefined };

/** How many deletions there were since a session was looked at, and after how many it is looked at again. */
type Look = { deleted: number; dueAfter: number };

/**
 * Folds runs of tombstones into the newest of each, and removes those that nothing was saved on: whatever is deleted over the years, a
 * session keeps at most one tombstone for each checkpoint, besides its newest ones. The lineage goes on at the parent of the oldest that
 * was folded.
 */
export class TombstoneFolder {
  readonly #storage: ChunkStorage;
  readonly #looks = new Map<SessionId, Look>();
  /** Where a storage that bounds how much it holds had deletions since it was looked at, and how many. */
  readonly #bounded = { sessions: new Set<SessionId>(), deleted: 0 };

  constructor(storage: ChunkStorage) {
    this.#storage = storage;
  }

  /** Counts what was deleted in a session, and folds now and then: so often that all processes together bound its size. */
  async note(sessionId: SessionId, deleted: readonly CheckpointId[]): Promise<void> {
    const [first] = deleted;
    if (first === undefined || this.#storage.foldTombstones === undefined) return;
    const { maxCheckpoints } = this.#storage.limits;
    if (maxCheckpoints !== undefined) return this.#noteBounded(sessionId, deleted.length, maxCheckpoints);
    const look = this.#looks.get(sessionId) ?? this.#begin(sessionId, first);
    look.deleted += deleted.length;
    if (look.deleted < look.dueAfter) return;
    const rows = await this.fold(sessionId);
    this.#looks.set(sessionId, { deleted: 0, dueAfter: Math.max(LOOK_AFTER, rows / 2) });
  }

  /** All sessions together keep about as many tombstones as there may be checkpoints. */
  async #noteBounded(sessionId: SessionId, deleted: number, maxCheckpoints: number): Promise<void> {
    const { sessions } = this.#bounded;
    sessions.add(sessionId);
    this.#bounded.deleted += deleted;
    if (this.#bounded.deleted <= maxCheckpoints / 2) return;
    this.#bounded.deleted = 0;
    const kept = await this.#countKept();
    const due = [...sessions];
    sessions.clear();
    for (const id of due) await this.fold(id, kept);
  }

  /** How many tombstones a session may keep as they are. */
  async #countKept(): Promise<number> {
    const { maxCheckpoints } = this.#storage.limits;
    if (maxCheckpoints === undefined) return KEPT_TOMBSTONES;
    const { sessions } = await this.#storage.stats();
    return Math.min(KEPT_TOMBSTONES, Math.floor(maxCheckpoints / 2 / Math.max(1, sessions)));
  }

  /** As if some had been deleted already, a different number each time: many short processes look as often as one long one. */
  #begin(sessionId: SessionId, first: CheckpointId): Look {
    if (this.#looks.size >= MAX_SESSIONS) this.#looks.clear();
    const look = { deleted: Number.parseInt(first.slice(-4), 32) % LOOK_AFTER || 0, dueAfter: LOOK_AFTER };
    this.#looks.set(sessionId, look);
    return look;
  }

  /** Folds what can be folded in every session. */
  async foldAll(signal?: AbortSignal): Promise<void> {
    const storage = this.#storage;
    if (storage.foldTombstones === undefined) return;
    const kept = await this.#countKept();
    const breather = new Breather();
    for await (const sessionId of eachSession(storage)) {
      signal?.throwIfAborted();
      await this.fold(sessionId, kept);
      await breather.breathe();
    }
  }

  /** Folds what can be folded in a session, a damaged one excepted. Returns how many rows it has. */
  async fold(sessionId: SessionId, kept = KEPT_TOMBSTONES): Promise<number> {
    const place = { sessionId, order: 'newest', include: 'all' } as const;
    const deleted = new Set<CheckpointId>();
    let count = 0;
    try {
      for await (const rows of readPages(this.#storage, place)) {
        count += rows.length;
        for (const { id } of rows.filter(({ isDeleted }) => isDeleted)) deleted.add(id);
      }
      const refs = await this.#storage.readRefs({ sessionId });
      const branches = new Set(refs.flatMap(({ kind, name }) => (kind === 'branch' ? [name] : [])));
      // What is being brought in has no branches yet.
      if (deleted.size <= kept || branches.size === 0) return count;
      const current = findCurrentBranch(refs);
      const headless = branches.has(current) ? undefined : current;
      const pass = new FoldingPass(this.#storage, { sessionId, deleted, headless, kept });
      for await (const rows of readPages(this.#storage, place)) await pass.read(rows);
      await pass.finish();
    } catch (error) {
      if (!isLost(error)) throw error;
    }
    return count;
  }
}

/** What is known of a session before the walk. */
type Walk = {
  readonly sessionId: SessionId;
  /** What was deleted before: nothing is saved on it any more. What is deleted meanwhile may have children that were not read. */
  readonly deleted: ReadonlySet<CheckpointId>;
  /** The branch that is current by its name only: its end says that it was there. */
  readonly headless: string | undefined;
  /** So many of the newest tombstones stay as they are. */
  readonly kept: number;
};

/** One walk through a session, newest first: a child comes before its parent, so little has to be remembered. */
class FoldingPass {
  readonly #storage: ChunkStorage;
  readonly #walk: Walk;
  readonly #breather = new Breather();
  /** Parents that were not read yet. */
  readonly #awaited = new Map<CheckpointId, Children>();
  #folds: TombstoneFold[] = [];
  #removes = 0;
  /** The newest tombstone, and those that nothing was saved on. */
  #newest: CheckpointRow | undefined;
  readonly #ends: CheckpointId[] = [];
  #tombstones = 0;

  constructor(storage: ChunkStorage, walk: Walk) {
    this.#storage = storage;
    this.#walk = walk;
  }

  async read(rows: readonly CheckpointRow[]): Promise<void> {
    for (const row of rows) {
      this.#take(row);
      if (this.#folds.length >= BATCH || this.#removes >= MAX_REMOVED) await this.#flush();
      else if (this.#breather.isDue) await this.#breather.breathe();
    }
  }

  /** What is left ends at a root. */
  async finish(): Promise<void> {
    await this.#flush();
    await this.#removeEnds();
  }

  #take(row: CheckpointRow): void {
    const children = this.#awaited.get(row.id);
    this.#awaited.delete(row.id);
    if (!row.isDeleted) {
      this.#close(children?.run);
      this.#await(parseRow(row).parentId, undefined);
      return;
    }
    const tombstone = parseTombstone(row);
    this.#newest ??= row;
    if (this.#tombstones++ < this.#walk.kept || !this.#walk.deleted.has(row.id)) {
      this.#close(children?.run);
      this.#await(tombstone.parentId, undefined);
    } else this.#takeOld({ row, tombstone }, children);
  }

  #takeOld(old: { row: CheckpointRow; tombstone: Tombstone }, children: Children | undefined): void {
    const { id, branch, parentId } = old.tombstone;
    if (children === undefined && branch !== this.#walk.headless) return void this.#ends.push(id);
    const run = this.#join(old, children);
    this.#await(parentId, run);
    if (parentId === undefined) this.#close(run);
  }

  /** The run that goes on with this tombstone, or one that begins with it. */
  #join({ row, tombstone }: { row: CheckpointRow; tombstone: Tombstone }, children: Children | undefined): Run {
    const run = children?.run;
    if (run === undefined || !isContinued(run, tombstone, children)) {
      this.#close(run);
      return { row, tip: tombstone, removes: [], last: tombstone, folded: tombstone.folded ?? 0 };
    }
    run.removes.push(tombstone.id);
    run.last = tombstone;
    run.folded += 1 + (tombstone.folded ?? 0);
    return run;
  }

  /** A second child of the same parent ends the runs of both there. */
  #await(parentId: CheckpointId | undefined, run: Run | undefined): void {
    if (parentId === undefined) return;
    const known = this.#awaited.get(parentId);
    if (known === undefined) this.#awaited.set(parentId, { count: 1, run });
    else {
      known.count++;
      this.#close(known.run);
      this.#close(run);
      known.run = undefined;
    }
  }

  #close(run: Run | undefined): void {
    if (run === undefined || run.removes.length === 0) return;
    const { row, tip, last, folded, removes } = run;
    const { parentId: _, ...rest } = tip;
    const parent = last.parentId === undefined ? {} : { parentId: last.parentId };
    const tombstone = { ...rest, ...parent, folded, foldedFrom: last.foldedFrom ?? last.id };
    const body = sealTombstone(tombstone, row.digest);
    this.#removes += removes.length;
    this.#folds.push({ id: row.id, expect: row.body, body, removes: [...removes] });
    removes.length = 0; // closed once
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
    const { sessionId } = this.#walk;
    const refs = await this.#storage.readRefs({ sessionId });
    const head = refs.find(({ kind }) => kind === 'branch')?.target as CheckpointId | undefined;
    const expect = findEnded(refs) ?? null;
    const target = endedTarget(newest);
    if (head === undefined || (expect !== null && expect >= target)) return head !== undefined;
    try {
      await this.#storage.commit({ sessionId, requires: [head], refs: [{ ...ENDED, expect, target }] });
      return true;
    } catch (error) {
      if (hasErrorCode(error, 'CONFLICT')) return false;
      throw error;
    }
  }

  async #flush(): Promise<void> {
    const folds = this.#folds;
    this.#folds = [];
    this.#removes = 0;
    if (folds.length > 0) await this.#storage.foldTombstones?.(folds);
  }
}

/** Only what is of one branch and has no other child becomes one. */
function isContinued(run: Run, { branch }: Tombstone, children: Children | undefined): boolean {
  return children?.count === 1 && run.tip.branch === branch && run.removes.length < MAX_REMOVED;
}
