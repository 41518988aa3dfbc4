import { withoutUndefined } from '../../core/defined.ts';
import { NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { CheckpointPage, ListFilter } from '../../manager/branch/history.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import { findLatestSession, findNamedSession } from './thread-sessions.ts';

/** A storage that is open for a command, and the session it is about. */
export class Workspace {
  readonly manager: CheckpointManager;
  readonly storage: ChunkStorage;
  #sessionId: SessionId | undefined;
  /** Whether what was named, or is the latest, was looked up. */
  #isResolved: Promise<void> | undefined;
  /** What `@` means instead of the head of the current branch. */
  position: CheckpointId | undefined;
  /** What the last bisect found. */
  readonly firstBad: CheckpointId | undefined;

  constructor(
    storage: ChunkStorage,
    { sessionId, firstBad }: { readonly sessionId: string | undefined; readonly firstBad: CheckpointId | undefined },
  ) {
    this.firstBad = firstBad;
    this.storage = storage;
    this.manager = new CheckpointManager({ storage, unknownClasses: 'keep' });
    this.#sessionId = sessionId === undefined ? undefined : parseSessionId(sessionId);
  }

  /** Goes on with another session. */
  select(sessionId: SessionId): void {
    if (sessionId !== this.#sessionId) this.position = undefined;
    this.#sessionId = sessionId;
    this.#isResolved = undefined;
  }

  /** The session that is meant: the one named, else the one that was saved to last. */
  async session(): Promise<SessionId> {
    const found = await this.findSession();
    if (found !== undefined) return found;
    const [store] = await this.storage.listSessions({ limit: 1 });
    throw new NotFoundError(
      store === undefined
        ? 'This storage has no checkpoints yet. Save one from a program, or run "savestate run" or "savestate demo".'
        : `This storage holds only stores of LangGraph, such as ${store}. Name one with --session.`,
    );
  }

  /** Like `session`, but undefined where there is nothing yet. */
  async findSession(): Promise<SessionId | undefined> {
    this.#isResolved ??= this.#resolve();
    await this.#isResolved;
    return this.#sessionId;
  }

  async #resolve(): Promise<void> {
    const named = this.#sessionId;
    const found = named === undefined ? await findLatestSession(this) : await findNamedSession(this, named);
    if (this.#sessionId === named) this.#sessionId = found;
  }

  /** The branch that a program opens next. */
  async currentBranch(sessionId: SessionId): Promise<string> {
    return this.manager.currentBranch(sessionId);
  }

  /** What a branch or tag of the session points at. */
  async findName(sessionId: SessionId, kind: 'branch' | 'tag', name: string): Promise<CheckpointId | undefined> {
    const [ref] = await this.storage.readRefs({ sessionId, kind, name });
    return ref === undefined ? undefined : (checkRef(ref).target as CheckpointId);
  }

  /** The checkpoint with exactly this id. */
  async openCheckpoint(id: CheckpointId): Promise<Checkpoint> {
    const checkpoint = await this.manager.get(id);
    if (checkpoint === undefined)
      throw new NotFoundError(`There is no checkpoint ${id} in this storage.`, { details: { id } });
    return checkpoint;
  }

  /** Every checkpoint that fits, page by page. */
  async *list(filter: ListFilter, order?: 'oldest'): AsyncGenerator<Checkpoint> {
    let cursor: string | undefined;
    do {
      const page: CheckpointPage = await this.manager.list(filter, withoutUndefined({ limit: 1_000, order, cursor }));
      yield* page.checkpoints;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  async close(): Promise<void> {
    await this.manager.close();
  }
}
