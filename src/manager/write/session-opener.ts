import { ConflictError, hasErrorCode, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseName, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { fork, switchBranch } from '../branch/branching.ts';
import { openRecordings } from '../effect/recordings.ts';
import type { Engine, SessionKeeper } from '../engine/engine.ts';
import { settleImport } from '../engine/import-claim.ts';
import { loadState } from '../engine/loading.ts';
import type { StoredCheckpoint } from '../engine/repository.ts';
import type { HeldLease } from '../lease/lease.ts';
import { parseRefName } from '../revision/ref-name.ts';
import { checkGiven, checkState, type SessionOptions } from './session-options.ts';
import type { SessionWriter } from './session-writer.ts';

/** Opens sessions and knows those that are open. */
export class SessionOpener implements SessionKeeper {
  readonly #engine: Engine;
  readonly #open = new Set<SessionWriter>();
  readonly #shared = new Map<SessionId, Promise<SessionWriter>>();
  /** How many are opening each session. */
  readonly #opening = new Map<SessionId, number>();
  /** Sessions that are being deleted. */
  readonly #ending = new Map<SessionId, Promise<unknown>>();
  readonly #unheld = new FinalizationRegistry<SessionWriter>((session) => {
    if (!session.isBusy && !session.hasLease) void session.close();
  });
  /** Loaded for the first session: who only looks needs none of it. */
  #writing: typeof import('./session-writer.ts') | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
    engine.keepers.add(this);
  }

  /** Closes a session, unless it has a lease, once nobody has what holds it: a program that opens one for each request would keep all states. */
  closeWithout(holder: object, session: SessionWriter): void {
    this.#unheld.register(holder, session);
  }

  /** Sessions that are open when theirs is deleted begin it anew. */
  forget(sessionId: SessionId): void {
    for (const session of this.#open) if (session.id === sessionId) session.restart();
  }

  get openBranches(): Iterable<SessionWriter> {
    return this.#open;
  }

  async whileIdle(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean> {
    const open = [...this.#open].filter(({ id }) => id === sessionId);
    if (this.#opening.has(sessionId) || open.some(({ isBusy }) => isBusy)) return false;
    const ending = end();
    for (const session of open) session.pauseFor(ending);
    this.#ending.set(sessionId, Promise.allSettled([ending]));
    try {
      return await ending;
    } finally {
      this.#ending.delete(sessionId);
    }
  }

  /**
   * Opens a session at the head of a branch. `withState: false` leaves the state unloaded, for callers that have it. With a
   * `lease` its commits stand under that; the caller ends it.
   */
  async open(sessionId: string, options: SessionOptions, how: Opening = {}): Promise<SessionWriter> {
    const id = parseSessionId(sessionId);
    await this.#ending.get(id);
    this.#opening.set(id, (this.#opening.get(id) ?? 0) + 1);
    try {
      return await this.#openAt(id, options, how);
    } finally {
      const left = (this.#opening.get(id) ?? 1) - 1;
      if (left > 0) this.#opening.set(id, left);
      else this.#opening.delete(id);
    }
  }

  async #openAt(id: SessionId, options: SessionOptions, { withState = true, lease }: Opening): Promise<SessionWriter> {
    const { branch, headId } = await this.#findHead(id, options);
    const stored = headId === undefined ? undefined : await this.#engine.repository.open(headId);
    const head = stored?.checkpoint;
    const loaded = withState ? await this.#load(id, stored, options) : NOTHING;
    const log = await openRecordings(this.#engine, { sessionId: id, branch, head }, options);
    const place = { sessionId: id, branch, isBranchStored: head !== undefined, head, lease };
    const onClose = (closed: SessionWriter) => void this.#open.delete(closed);
    this.#writing ??= await import('./session-writer.ts');
    const session = new this.#writing.SessionWriter(this.#engine, { ...place, ...loaded, log, options, onClose });
    this.#open.add(session);
    return session;
  }

  /** The state to go on from: what is stored, as the schema returns it; or a copy of the initial one, also for a program that runs again. */
  async #load(id: SessionId, stored: StoredCheckpoint | undefined, { schema, initial, replayFrom }: SessionOptions) {
    if (stored !== undefined && (replayFrom !== 'start' || initial === undefined)) {
      const { state, encoded, migratedThrough } = await loadState(this.#engine, stored);
      const checked = schema === undefined ? state : await checkState(schema, state, stored.checkpoint.id);
      return { state: checked, encoded, migratedThrough };
    }
    if (initial === undefined && schema !== undefined)
      throw new NotFoundError(`Session "${id}" has no checkpoint yet, so there is no state. Pass initial to begin it.`);
    if (initial === undefined) return NOTHING;
    const state: unknown = this.#engine.plainCodec.copy(initial);
    return { ...NOTHING, state: schema === undefined ? state : await checkGiven(schema, state, 'initial') };
  }

  async #findHead(id: SessionId, options: SessionOptions): Promise<{ branch: string; headId: string | undefined }> {
    const branch = parseName(options.branch ?? (await this.#engine.currentBranch(id)), 'A branch name');
    const headId = await this.#engine.repository.readRef(id, 'branch', branch);
    if (headId === undefined && (await settleImport(this.#engine, id))) return this.#findHead(id, options);
    if (headId === undefined && options.branch !== undefined) await this.#checkNew(id, branch);
    return { branch, headId };
  }

  /** A branch that is named but does not exist is a mistake, unless the session itself is new. */
  async #checkNew(sessionId: SessionId, branch: string): Promise<void> {
    const branches = await this.#engine.repository.readRefs({ sessionId, kind: 'branch' });
    if (branches.length === 0) return void parseRefName(branch, 'A branch name');
    const names = branches.map(({ name }) => name).join(', ');
    throw new NotFoundError(`Session "${sessionId}" has no branch "${branch}" (it has: ${names}). Make it with fork.`, {
      details: { sessionId, branch },
    });
  }

  /**
   * The session to go on in from a checkpoint: on the current branch or its own if it is the head there, on a new one otherwise, which is
   * current from then on. If the whole session was deleted meanwhile it begins anew.
   */
  async resumeAt(checkpoint: Checkpoint): Promise<SessionWriter> {
    const { id, sessionId } = checkpoint;
    try {
      const current = await this.#engine.currentBranch(sessionId);
      const branch = (await this.#findBranchAt(checkpoint, current)) ?? (await fork(this.#engine, id)).branch;
      if (branch !== current) await switchBranch(this.#engine, sessionId, branch);
      const opening = this.open(sessionId, { branch }, { withState: false });
      this.#shared.set(sessionId, opening);
      return await opening;
    } catch (error) {
      if (!hasErrorCode(error, 'NOT_FOUND')) throw error;
      if ((await this.#engine.repository.readRefs({ sessionId, kind: 'branch' })).length > 0)
        throw deletedError(checkpoint);
      return this.shared(sessionId);
    }
  }

  async #findBranchAt({ id, sessionId, branch: own }: Checkpoint, current: string): Promise<string | undefined> {
    for (const branch of new Set([current, own]))
      if ((await this.#engine.repository.readRef(sessionId, 'branch', branch)) === id) return branch;
    return undefined;
  }

  /** The manager's own session of this name: opened once, shared by all objects whose saves go there. */
  async shared(sessionId: SessionId): Promise<SessionWriter> {
    const known = this.#shared.get(sessionId);
    const session = await (known ?? this.#share(sessionId));
    if (!session.isClosed) return session;
    if (this.#shared.get(sessionId) === known) this.#shared.delete(sessionId);
    return this.shared(sessionId);
  }

  #share(sessionId: SessionId): Promise<SessionWriter> {
    const opening = this.open(sessionId, {}, { withState: false });
    this.#shared.set(sessionId, opening);
    opening.catch(() => this.#shared.delete(sessionId));
    return opening;
  }

  /** Closes all, also if one cannot release its lease; that is told when all are closed. */
  async closeAll(): Promise<void> {
    const outcomes = await Promise.allSettled([...this.#open].map((session) => session.close()));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }
}

function deletedError({ id, sessionId }: Checkpoint): ConflictError {
  return new ConflictError(
    `Checkpoint ${id}, which this was restored from, was deleted meanwhile, so a save cannot follow it. Restore another one, or pass a sessionId of its own.`,
    { details: { checkpointId: id, sessionId } },
  );
}

type Opening = { readonly withState?: boolean; readonly lease?: HeldLease };

const NOTHING = { state: undefined, encoded: undefined, migratedThrough: [] };
