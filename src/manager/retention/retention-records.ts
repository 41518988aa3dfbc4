import { ConflictError, isLost } from '../../core/errors.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointQuery, ChunkStorage } from '../../storage/contract.ts';
import { isProtecting } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { withoutPending } from '../engine/import-claim.ts';
import { formatTombstone, parseRow, parseRows, readPages, readSession } from '../engine/records.ts';

const DELETE_BATCH = 200;
/** Sessions of which it is remembered that nothing in them needs its parent; of the others a scan tells again. */
const MAX_QUIET_SESSIONS = 1000;

/** What a lineage is made of, and what the need for a parent is read from. */
type Link = Pick<CheckpointHeader, 'id' | 'parentId' | 'needsParent'>;

/** Why checkpoints are to be deleted. */
export type Doomed = ReadonlyMap<CheckpointId, string>;

/**
 * All that fit. Sessions with damage are left out: what they need is not known. So are those that are being brought in: nothing protects
 * their checkpoints yet, and they may be taken back.
 */
export async function readHeaders(
  engine: Engine,
  filter: Omit<CheckpointQuery, 'limit'>,
): Promise<readonly CheckpointHeader[]> {
  const headers: CheckpointHeader[] = [];
  const damaged = new Set<SessionId>();
  for await (const rows of readPages(engine.storage, filter)) {
    const parsed = await parseRows(rows);
    for (const { header } of parsed.checkpoints) headers.push(header);
    for (const { sessionId } of parsed.damaged) damaged.add(sessionId);
  }
  const whole = damaged.size === 0 ? headers : headers.filter(({ sessionId }) => !damaged.has(sessionId));
  return withoutPending(engine.storage, whole);
}

/**
 * Turns checkpoints into tombstones and says so; returns those that were deleted now. Newest first: where this is cut short, nothing is
 * left without an ancestor that it needs.
 */
export async function deleteCheckpoints(
  { storage, ports, events }: Engine,
  doomed: Doomed,
  options: { readonly force?: boolean } = {},
): Promise<CheckpointId[]> {
  const newestFirst = [...doomed.keys()].sort().reverse();
  const deleted: CheckpointId[] = [];
  const breather = new Breather();
  for (let at = 0; at < newestFirst.length; at += DELETE_BATCH) {
    const deletedAtMs = ports.now();
    const batch = newestFirst.slice(at, at + DELETE_BATCH);
    const rows = await Promise.all(batch.map((id) => storage.readCheckpoint(id)));
    const live = rows.flatMap((row) => (row === undefined || row.isDeleted ? [] : [parseRow(row)]));
    const reasonOf = (id: CheckpointId): string => doomed.get(id) ?? '';
    const deletions = live.map((each) => ({
      id: each.id,
      body: formatTombstone(each, deletedAtMs, reasonOf(each.id)),
    }));
    for (const id of await storage.deleteCheckpoints(deletions, options)) {
      deleted.push(id);
      await events.emit('checkpoint_deleted', id, reasonOf(id));
    }
    await breather.breathe();
  }
  return deleted;
}

/** Of a damaged session nothing is deleted: what its names point at is not known. The others are not held up by it. */
export async function orIfDamaged<Result>(work: Promise<Result>, result: Result): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (isLost(error)) return result;
    throw error;
  }
}

/**
 * The ancestors without which what is kept could not be read whole, each with the newest kept checkpoint that needs it. One pass,
 * because a parent's id is smaller than its child's.
 */
export async function findNeeded(
  newestFirst: Iterable<Link>,
  isKept: (id: CheckpointId) => boolean,
  breather = new Breather(),
): Promise<Map<CheckpointId, CheckpointId>> {
  const needed = new Map<CheckpointId, CheckpointId>();
  await breather.each(newestFirst, ({ id, parentId, needsParent }) => {
    if (needsParent !== true || parentId === undefined || needed.has(parentId)) return;
    const keeper = needed.get(id) ?? (isKept(id) ? id : undefined);
    if (keeper !== undefined) needed.set(parentId, keeper);
  });
  return needed;
}

/** Throws a ConflictError if another checkpoint could not be read whole without this one. */
export async function checkUnneeded(storage: ChunkStorage, { id, sessionId }: Checkpoint): Promise<void> {
  for await (const entry of readSession(storage, sessionId)) {
    if (entry.id <= id) return; // a child's id is greater
    if (entry.parentId !== id || entry.checkpoint?.header.needsParent !== true) continue;
    throw new ConflictError(
      `Checkpoint ${id} was not deleted: ${entry.id} cannot be read whole without it. Delete that first, and what needs it in turn; or use prune, which keeps what is needed.`,
      { details: { id, neededBy: entry.id } },
    );
  }
}

/** Finds what is needed in sessions of which only a part was judged. */
export class SessionNeeds {
  readonly #storage: ChunkStorage;
  /** Up to where nothing needs its parent, so that a save into a long session does not read all of it. */
  readonly #quietUntil = new Map<SessionId, CheckpointId>();

  constructor(storage: ChunkStorage) {
    this.#storage = storage;
  }

  /**
   * Which checkpoints must stay although these are to go, because of what stays. Heads are among them: when the storage looks,
   * they may be heads no more, but parents.
   */
  async find(sessionId: SessionId, doomed: Pick<Doomed, 'has'>): Promise<Iterable<CheckpointId>> {
    if (!(await this.#hasNeeds(sessionId))) return [];
    const refs = await this.#storage.readRefs({ sessionId });
    const held = new Set(refs.flatMap(({ kind, target }) => (isProtecting(kind) ? [target as CheckpointId] : [])));
    const oldestFirst: Link[] = [];
    for await (const header of this.#readLive(sessionId)) oldestFirst.push(header);
    const needed = await findNeeded(oldestFirst.toReversed(), (id) => !doomed.has(id) || held.has(id));
    return [...held, ...needed.keys()];
  }

  async #hasNeeds(sessionId: SessionId): Promise<boolean> {
    let last = this.#quietUntil.get(sessionId);
    for await (const { id, needsParent } of this.#readLive(sessionId, last)) {
      if (needsParent === true) return true;
      last = id;
    }
    if (last !== undefined) keepRecent(this.#quietUntil, [sessionId, last], MAX_QUIET_SESSIONS);
    return false;
  }

  /** What is not deleted, oldest first: what was is no part of the cost. */
  async *#readLive(sessionId: SessionId, after?: CheckpointId): AsyncGenerator<Link> {
    const place = { sessionId, order: 'oldest', ...(after !== undefined && { after }) } as const;
    for await (const rows of readPages(this.#storage, place)) for (const row of rows) yield parseRow(row).header;
  }
}
