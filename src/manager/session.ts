import type { Checkpoint } from '../core/checkpoint.ts';
import type { Chunk, Digest } from '../core/chunk.ts';
import { ClosedError, hasErrorCode } from '../core/errors.ts';
import type { CheckpointId, SessionId } from '../core/id.ts';
import type { EncodedState } from '../core/state-codec.ts';
import { buildCheckpoint } from './commit-builder.ts';
import type { ManagerContext } from './context.ts';
import { EffectLog, type EffectMode, type StepAttempt, type StepOptions } from './effect-log.ts';
import type { RecordedEffect } from './effect-record.ts';
import { freezeState } from './freeze.ts';
import { type DescribedHeader, describeCheckpoint, type SaveOptions } from './save-options.ts';

/** How a session is opened. */
export type SessionOptions = {
  /** Default: the branch a rewind made current, else `main`. A branch that does not exist yet begins with the first save. */
  readonly branch?: string;
  /** When someone else moved the branch: `error` (default) throws a ConflictError, `branch` goes on in a branch of its own. */
  readonly onConflict?: 'error' | 'branch';
  /** How `step` uses recordings; default `live`. */
  readonly mode?: EffectMode;
  /** Which recordings `step` uses: those after the head (default), or all since the session began. */
  readonly replayFrom?: 'head' | 'start';
  /** The branch whose recordings `step` uses; default: its own, or in a replay mode the one it was forked from. */
  readonly replayBranch?: string;
  /** Freeze what was saved: later saves cost what changed, and a mutation in place throws where it happens. */
  readonly freeze?: boolean;
};

/** What a session starts from; made by the manager. */
export type SessionStart = {
  readonly sessionId: SessionId;
  readonly branch: string;
  /** Whether the branch exists in the storage. */
  readonly isBranchStored: boolean;
  readonly head: Checkpoint | undefined;
  readonly state: unknown;
  readonly encoded: EncodedState | undefined;
  readonly recordings: readonly RecordedEffect[];
  readonly nextOrdinal: number;
};

type PendingSave = {
  readonly described: DescribedHeader;
  readonly encoded: EncodedState;
  readonly signal: AbortSignal | undefined;
};

/**
 * The recorded life of one agent or group, opened for writing on one branch. Saves are taken at the moment of the call and
 * stored in the order of the calls; each stands on the last one that was stored.
 */
export class Session {
  readonly id: SessionId;
  readonly #context: ManagerContext;
  readonly #options: SessionOptions;
  readonly #hooks: SessionHooks;
  #effects: EffectLog;
  #branch: string;
  #isBranchStored: boolean;
  #head: Checkpoint | undefined;
  #state: unknown;
  #encoded: EncodedState | undefined;
  /** Chunks of saves that failed: the next save refers to them, so it brings them. */
  readonly #unstored = new Map<Digest, Chunk>();
  #lastSave: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(context: ManagerContext, start: SessionStart, hooks: SessionHooks) {
    this.#context = context;
    this.#options = hooks.options;
    this.#hooks = hooks;
    this.id = start.sessionId;
    this.#branch = start.branch;
    this.#isBranchStored = start.isBranchStored;
    this.#head = start.head;
    this.#state = start.state;
    this.#encoded = start.encoded;
    this.#effects = this.#openLog(start);
    if (start.encoded !== undefined) context.shadows.touch(this, start.encoded.sizeBytes);
  }

  #openLog({ recordings, nextOrdinal }: Pick<SessionStart, 'recordings' | 'nextOrdinal'>): EffectLog {
    const { mode = 'live' } = this.#options;
    return new EffectLog(this.#context, {
      sessionId: this.id,
      branch: this.#branch,
      mode,
      recordings,
      nextOrdinal,
      head: () => (this.#isBranchStored ? this.#head : undefined),
    });
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get branch(): string {
    return this.#branch;
  }

  /** The checkpoint the branch is at; undefined before the first save. */
  get head(): Checkpoint | undefined {
    return this.#head;
  }

  /** The state that was restored when the session was opened, or the one last passed to `save`. It is yours to change. */
  get state(): unknown {
    return this.#state;
  }

  /**
   * Saves a state. It is read before this returns, so it may be changed at once. Resolves when the checkpoint is durable;
   * rejects without a trace in the history, and the session can go on.
   */
  async save(state: unknown, options: SaveOptions = {}): Promise<CheckpointId> {
    this.#checkOpen();
    return this.#save(options, () => this.#capture(state, this.#context.codec.encode(state, this.#encoded)));
  }

  /** Like `save`, for a caller that had to encode the state before the session was open. */
  async saveEncoded(state: unknown, encoded: EncodedState, options: SaveOptions): Promise<CheckpointId> {
    this.#checkOpen();
    return this.#save(options, () => this.#capture(state, encoded));
  }

  async #save(options: SaveOptions, capture: () => EncodedState): Promise<CheckpointId> {
    let pending: PendingSave;
    try {
      options.signal?.throwIfAborted();
      const described = describeCheckpoint(options, this.#context.codec);
      pending = { described, encoded: capture(), signal: options.signal };
    } catch (error) {
      await this.#reportFailure(error);
      throw error;
    }
    const save = this.#lastSave.then(() => this.#store(pending));
    this.#lastSave = save.catch(() => undefined);
    const checkpoint = await save;
    await this.#hooks.afterSave(checkpoint);
    return checkpoint.id;
  }

  #capture(state: unknown, encoded: EncodedState): EncodedState {
    if (this.#options.freeze === true) freezeState(state);
    this.#encoded = encoded;
    this.#state = state;
    this.#context.shadows.touch(this, encoded.sizeBytes);
    return encoded;
  }

  async #store(pending: PendingSave): Promise<Checkpoint> {
    try {
      pending.signal?.throwIfAborted();
      return await this.#commit(pending);
    } catch (error) {
      if (this.#options.onConflict === 'branch' && hasErrorCode(error, 'CONFLICT') && this.#isBranchStored) {
        return this.#commitToOwnBranch(pending);
      }
      this.#carryOver(pending.encoded);
      await this.#reportFailure(error);
      throw error;
    }
  }

  #carryOver({ chunks }: EncodedState): void {
    for (const chunk of chunks) this.#unstored.set(chunk.digest, chunk);
  }

  async #commit({ described, encoded }: PendingSave): Promise<Checkpoint> {
    const parent = this.#head;
    const place = { sessionId: this.id, branch: this.#branch, parent, effects: this.#effects.position };
    const { checkpoint, record } = buildCheckpoint(this.#context, place, { described, encoded });
    const result = await this.#context.storage.commit({
      sessionId: this.id,
      checkpoint: record,
      chunks: this.#unstored.size === 0 ? encoded.chunks : [...this.#unstored.values(), ...encoded.chunks],
      refs: [{ kind: 'branch', name: this.#branch, expect: this.#expectedHead(), target: checkpoint.id }],
      ...(parent !== undefined && { requires: [parent.id] }),
    });
    if (result.status === 'duplicate') return this.#adopt(result.id, encoded);
    this.#unstored.clear();
    this.#head = checkpoint;
    this.#isBranchStored = true;
    return checkpoint;
  }

  /** This save was stored before under the same key. If that answer got lost on its way, the head is there by now. */
  async #adopt(id: CheckpointId, encoded: EncodedState): Promise<Checkpoint> {
    const { checkpoint } = await this.#context.repository.open(id);
    this.#carryOver(encoded);
    if (checkpoint.branch === this.#branch && checkpoint.parentId === this.#head?.id) {
      this.#head = checkpoint;
      this.#isBranchStored = true;
    }
    return checkpoint;
  }

  #expectedHead(): string | null {
    return this.#isBranchStored ? (this.#head?.id ?? null) : null;
  }

  /** Someone else moved the branch: goes on from the last own checkpoint, in a branch that says where it left. */
  async #commitToOwnBranch(pending: PendingSave): Promise<Checkpoint> {
    this.#branch = `${this.#branch}~${this.#context.ports.nextId().slice(-8)}`;
    this.#isBranchStored = false;
    this.#effects = this.#openLog({ recordings: [], nextOrdinal: 0 });
    return this.#store(pending);
  }

  /**
   * Runs a function once, whatever happens to the process: its result is durable before it is returned, and after a crash
   * it is returned without running again. A step that was in flight runs again with the same `idempotencyKey`.
   */
  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options?: StepOptions,
  ): Promise<Result> {
    this.#checkOpen();
    return this.#effects.step(name, run, options);
  }

  /** Waits for saves under way. Idempotent. The storage stays open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#lastSave;
    this.#context.shadows.release(this);
    this.forgetShadow();
    this.#hooks.onClose(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The next save encodes the whole state again; nothing else changes. */
  forgetShadow(): void {
    this.#encoded = undefined;
  }

  async #reportFailure(error: unknown): Promise<void> {
    await this.#context.events.emit('save_failed', error, { sessionId: this.id, branch: this.#branch });
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError(`Session "${this.id}" was closed. Open it again with manager.session().`);
  }
}

/** What the manager adds to a session. */
export type SessionHooks = {
  readonly options: SessionOptions;
  readonly afterSave: (checkpoint: Checkpoint) => Promise<void>;
  readonly onClose: (session: Session) => void;
};
