import { ConflictError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { isProtecting } from '../../storage/ref.ts';
import { readSession } from '../engine/lineage.ts';
import { parseRow } from '../engine/repository.ts';

/** What a lineage is made of, and what the need for a parent is read from. */
type Link = Pick<CheckpointHeader, 'id' | 'parentId' | 'needsParent'>;

const PAGE = 500;
/** Sessions of which it is remembered that nothing in them needs its parent; of the others a scan tells again. */
const MAX_QUIET_SESSIONS = 1000;
/**
 * The ancestors without which what is kept could not be read whole, each with the newest kept checkpoint that needs it. One pass,
 * because a parent's id is smaller than its child's.
 */
export function findNeeded(
  newestFirst: Iterable<Link>,
  isKept: (id: CheckpointId) => boolean,
): Map<CheckpointId, CheckpointId> {
  const needed = new Map<CheckpointId, CheckpointId>();
  for (const { id, parentId, needsParent } of newestFirst) {
    const keeper = needed.get(id) ?? (isKept(id) ? id : undefined);
    if (keeper === undefined || needsParent !== true || parentId === undefined || needed.has(parentId)) continue;
    needed.set(parentId, keeper);
  }
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
  async find(sessionId: SessionId, doomed: ReadonlySet<CheckpointId>): Promise<Iterable<CheckpointId>> {
    if (!(await this.#hasNeeds(sessionId))) return [];
    const held = new Set<CheckpointId>();
    for (const { kind, target } of await this.#storage.readRefs({ sessionId }))
      if (isProtecting(kind)) held.add(target as CheckpointId);
    const oldestFirst: CheckpointHeader[] = [];
    for await (const header of this.#readLive(sessionId)) oldestFirst.push(header);
    const needed = findNeeded(oldestFirst.toReversed(), (id) => !doomed.has(id) || held.has(id));
    return [...held, ...needed.keys()];
  }

  async #hasNeeds(sessionId: SessionId): Promise<boolean> {
    let last = this.#quietUntil.get(sessionId);
    for await (const { id, needsParent } of this.#readLive(sessionId, last)) {
      if (needsParent === true) return true;
      last = id;
    }
    if (last !== undefined) this.#remember(sessionId, last);
    return false;
  }

  /** What is not deleted, oldest first: what was is no part of the cost. */
  async *#readLive(sessionId: SessionId, from?: CheckpointId): AsyncGenerator<CheckpointHeader> {
    let after = from;
    for (;;) {
      const page = { sessionId, order: 'oldest' as const, limit: PAGE, ...(after !== undefined && { after }) };
      const rows = await this.#storage.listCheckpoints(page);
      for (const row of rows) yield parseRow(row).header;
      after = rows.at(-1)?.id;
      if (rows.length < PAGE) return;
    }
  }

  #remember(sessionId: SessionId, until: CheckpointId): void {
    this.#quietUntil.delete(sessionId);
    this.#quietUntil.set(sessionId, until);
    const [oldest] = this.#quietUntil.keys();
    if (oldest !== undefined && this.#quietUntil.size > MAX_QUIET_SESSIONS) this.#quietUntil.delete(oldest);
  }
}
