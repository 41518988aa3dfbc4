import type { EncodedState } from '../../core/codec/state-codec.ts';
import { ClosedError, ConflictError, hasErrorCode, InvalidInputError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { callback, checkOptions, checkValue } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { isRefused } from '../../storage/refusal.ts';
import { type Delivered, EffectLog } from '../effect/effect-log.ts';
import { STEP_CHECKS, type StepAttempt, type StepOptions } from '../effect/step.ts';
import type { OpenedLog } from '../effect/step-recordings.ts';
import type { Engine } from '../engine/engine.ts';
import { isSessionGone } from '../engine/import-claim.ts';
import type { LoadedState } from '../engine/loading.ts';
import { describeCheckpoint, parseOpenName, SAVE_CHECKS, type SaveOptions } from '../engine/save-options.ts';
import type { Writer } from '../engine/writer.ts';
import { LEASE_CHECKS, type Lease, type LeaseOptions } from '../lease/lease.ts';
import { BranchLine, type BranchStart, type PendingSave } from './branch-line.ts';
import { BASE_FAILED, changeDraft, SAVED_INSIDE } from './draft.ts';
import { checkGiven, type SessionOptions } from './session-options.ts';

/** What a session starts from, and how it is written; made by the manager. */
export type SessionStart = BranchStart &
  Pick<LoadedState, 'state' | 'encoded' | 'migratedThrough'> & {
    readonly log: OpenedLog;
    readonly options: SessionOptions;
    readonly onClose: (writer: SessionWriter) => void;
  };

/** A state that an update made, and the one to go back to if it cannot be saved. */
type Update = { readonly state: unknown; before: unknown; hasFailed: boolean };

/** An update that is being saved, and the one before it that it builds on. */
type Updating = { readonly update: Update; readonly base: Update | undefined };

/**
 * Writes to one branch of a session. Saves are taken at the moment of the call and stored in the order of the calls; each stands on
 * the last one that was stored.
 */
export class SessionWriter {
  readonly id: SessionId;
  readonly #engine: Engine;
  readonly #start: Pick<SessionStart, 'head' | 'migratedThrough' | 'options' | 'onClose'>;
  readonly #line: BranchLine;
  #effects: EffectLog;
  #state: unknown;
  #encoded: EncodedState | undefined;
  #lastSave: Promise<unknown> = Promise.resolve();
  #lastUpdate: Update | undefined;
  #savesUnderWay = 0;
  /** The session may be deleted just now. */
  #isEnding = false;
  #isClosed = false;

  constructor(engine: Engine, { state, encoded, log, ...start }: SessionStart) {
    this.#engine = engine;
    this.#start = start;
    this.id = start.sessionId;
    this.#line = new BranchLine(engine, start);
    this.#state = state;
    this.#encoded = encoded;
    this.#effects = this.#openLog(log);
    if (encoded !== undefined) engine.shadows.touch(this, encoded.sizeBytes);
  }

  #openLog(log: OpenedLog): EffectLog {
    const { mode = 'live' } = this.#start.options;
    return new EffectLog(this.#engine, this.#line, { ...log, sessionId: this.id, branch: this.branch, mode });
  }

  /** What was recorded on the branch. */
  get effects(): Pick<EffectLog, 'finishedOf' | 'letGo' | 'settle'> {
    return this.#effects;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether commits stand under a lease. */
  get hasLease(): boolean {
    return this.#line.lease !== undefined;
  }

  get branch(): string {
    return this.#line.branch;
  }

  /** The checkpoint the branch is at; undefined before the first save. */
  get head(): Checkpoint | undefined {
    return this.#line.head;
  }

  /** The state that was restored when the session was opened, or the one last saved. */
  get state(): unknown {
    return this.#state;
  }

  /** Versions that the state of the head went through when it was loaded; none if it was current, or was saved here. */
  get migratedThrough(): readonly number[] {
    return this.head === this.#start.head ? this.#start.migratedThrough : [];
  }

  /**
   * Saves a state. It is read before this returns, so it may be changed at once. Resolves when the checkpoint is durable;
   * rejects without a trace in the history, and the session can go on.
   */
  async save(state: unknown, options: SaveOptions = {}): Promise<CheckpointId> {
    this.#checkOpen();
    checkOptions(options, SAVE_CHECKS, 'session.save()');
    return this.#save(options, () => this.#encode(state));
  }

  #encode(state: unknown): EncodedState {
    return this.#capture(state, this.#engine.codec.encode(state, this.#encoded));
  }

  /** Whether the next save may begin the session, and so must bring its whole state. */
  get mayBegin(): boolean {
    return this.head === undefined || this.#isEnding;
  }

  /** Like `save`, for a caller that had to encode the state before the session was open: whole if it `mayBegin`. */
  async saveEncoded(state: unknown, encoded: EncodedState, options: SaveOptions): Promise<CheckpointId> {
    this.#checkOpen();
    return this.#save(options, () => this.#capture(state, encoded));
  }

  #save(options: SaveOptions, capture: () => EncodedState, updating?: Updating): Promise<CheckpointId> {
    const save = async (writer: Writer): Promise<CheckpointId> => {
      const stateBefore = this.#state;
      const pending = this.#pend(options, capture);
      const fits = this.#checkFits();
      const takeBack = (): void => {
        if (this.#encoded === pending.encoded) this.#state = stateBefore;
      };
      const store = async (): Promise<Checkpoint> => {
        this.#line.bring(pending);
        if (options.after !== undefined) await options.after;
        if (updating?.base?.hasFailed === true)
          throw new ConflictError(BASE_FAILED, { details: { sessionId: this.id } });
        await fits;
        return this.#store(writer, this.#renew(pending));
      };
      const checkpoint = await this.#inOrder(store, (error) => {
        if (updating !== undefined) this.#undo(updating);
        else if (hasErrorCode(error, 'INVALID_INPUT')) takeBack();
      });
      if (checkpoint.id !== this.head?.id) takeBack();
      return checkpoint.id;
    };
    return this.#engine.write(save, { sessionId: this.id, branch: this.branch });
  }

  /** The state that was captured must fit the schema, or the session could not be opened with it again. */
  #checkFits(): Promise<unknown> | undefined {
    const { schema } = this.#start.options;
    const checked = schema && checkGiven(schema, this.#state, 'The state');
    checked?.catch(() => undefined); // told when its turn comes
    return checked;
  }

  /** What is captured while the session ends is whole, and begins it anew. */
  get #nextLife(): number {
    return this.#line.life + (this.#isEnding ? 1 : 0);
  }

  #pend(options: SaveOptions, capture: () => EncodedState): PendingSave {
    const { signal, ifChanged = false } = options;
    signal?.throwIfAborted();
    const described = describeCheckpoint(options, this.#engine.codec);
    const effects = options.effects === 'of_parent' ? this.#parentEffects() : this.#effects.position;
    return { described, encoded: capture(), effects, log: this.#effects, signal, ifChanged, life: this.#nextLife };
  }

  /**
   * Changes a draft of the state and saves it. A function that throws, and a save that fails, leave the state as it was; so does an
   * earlier update that failed after this one was called, because this one builds on it.
   */
  async update(recipe: (draft: never) => unknown, options: SaveOptions = {}): Promise<CheckpointId> {
    this.#checkOpen();
    checkValue(recipe, callback, 'The function of update()');
    checkOptions(options, SAVE_CHECKS, 'session.update()');
    const before = this.#state;
    const base = this.#lastUpdate?.state === before ? this.#lastUpdate : undefined;
    const update = { state: changeDraft(before, recipe), before, hasFailed: false };
    if (this.#state !== before) throw new InvalidInputError(SAVED_INSIDE, { details: { sessionId: this.id } });
    this.#lastUpdate = update;
    return this.#save(options, () => this.#encode(update.state), { update, base });
  }

  /** Takes an update back, and with it those before it that it builds on and that failed. */
  #undo({ update, base }: Updating): void {
    update.hasFailed = true;
    if (base?.hasFailed === true) update.before = base.before;
    if (this.#state === update.state) this.#state = update.before;
  }

  /** One save after the other, in the order of the calls. What was not stored and never will be is taken back before the next. */
  #inOrder(store: () => Promise<Checkpoint>, takeBack: (error: unknown) => void): Promise<Checkpoint> {
    this.#savesUnderWay++;
    const turn = this.#lastSave.then(store).finally(() => this.#savesUnderWay--);
    this.#lastSave = turn.catch(takeBack);
    return turn;
  }

  /** Where the session began anew, or on another branch, since a state was captured, there is another log. */
  #renew(pending: PendingSave): PendingSave {
    const log = this.#effects;
    return log === pending.log ? pending : { ...pending, effects: log.position, log };
  }

  #parentEffects(): PendingSave['effects'] {
    const { head } = this.#line;
    if (head?.branch !== this.branch) return {};
    const { effectCount, effectsInFlight } = head.header;
    return {
      ...(effectCount !== undefined && { effectCount }),
      ...(effectsInFlight !== undefined && { effectsInFlight }),
    };
  }

  #capture(state: unknown, encoded: EncodedState): EncodedState {
    if (this.#start.options.freeze === true) freezeState(state);
    this.#encoded = encoded;
    this.#state = state;
    this.#engine.shadows.touch(this, encoded.sizeBytes);
    return encoded;
  }

  async #store(writer: Writer, pending: PendingSave): Promise<Checkpoint> {
    try {
      await this.#effects.beginningsStored(); // they expect the head that this save moves
      return await this.#line.store(writer, pending);
    } catch (error) {
      if (this.#mayBranchOff(error)) return this.#storeInOwnBranch(writer, pending);
      if (hasErrorCode(error, 'CONFLICT') && (await this.#isDeleted())) this.restart();
      throw explainMove(error, this.branch);
    }
  }

  /** Whether the session is gone as a whole, as retention of another process may end it. */
  async #isDeleted(): Promise<boolean> {
    return this.#line.storedHead !== undefined && (await isSessionGone(this.#engine.storage, this.id));
  }

  /** Who lost the lease must stop, and not go on elsewhere. */
  #mayBranchOff(error: unknown): boolean {
    if (this.#start.options.onConflict !== 'branch') return false;
    return isRefused(error, 'moved') || (isRefused(error, 'gone') && this.#line.storedHead !== undefined);
  }

  async #storeInOwnBranch(writer: Writer, pending: PendingSave): Promise<Checkpoint> {
    this.#line.branchOff();
    this.#effects = this.#openLog({ recordings: [], nextOrdinal: 0 });
    return this.#line.store(writer, this.#renew(pending));
  }

  /**
   * Runs a function once, whatever happens to the process: its result is durable before it is returned, and after a crash
   * it is returned without running again. A step that was in flight runs again with the same `idempotencyKey`.
   */
  step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options?: StepOptions,
  ): Promise<Result> {
    let seen = (): void => undefined;
    const result = this.#step(name, run, options).then((delivered) => {
      seen = delivered.seen;
      return delivered.result;
    });
    // The first to be told, right before the caller: no save comes in between.
    result.then(
      () => seen(),
      () => undefined,
    );
    return result;
  }

  async #step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options: StepOptions | undefined,
  ): Promise<Delivered<Result>> {
    this.#checkOpen();
    checkValue(run, callback, 'The function of step()');
    if (options !== undefined) checkOptions(options, STEP_CHECKS, 'step()');
    if (this.#savesUnderWay > 0) await this.#lastSave; // a step stands on the saves that were called before it
    if (this.#line.isInDoubt) await this.#engine.write((writer) => this.#line.settleDoubt(writer));
    parseOpenName(name, 'A step name', this.#engine.codec);
    return this.#engine.trace({ kind: 'step', sessionId: this.id, name }, (tell) => {
      tell({ isReplayed: true }); // unless its function is called
      const traced: typeof run = (attempt) => {
        tell({ isReplayed: false });
        return run(attempt);
      };
      return this.#effects.step(name, traced, options);
    });
  }

  /**
   * Takes the lease of the branch, or renews the one this session holds. From then on every save and step is refused with a
   * ConflictError once someone else took the lease over. It binds those who ask for one: a session without a lease may
   * still write, as far as the head lets it.
   */
  async lease(options: LeaseOptions = {}): Promise<Lease> {
    this.#checkOpen();
    checkOptions(options, LEASE_CHECKS, 'lease()');
    return this.#line.acquire(options);
  }

  /** Waits for saves under way and releases the lease. Idempotent. The storage stays open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#lastSave;
    this.#engine.shadows.release(this);
    this.forgetShadow();
    this.#start.onClose(this);
    await this.#line.close();
  }

  /** Whether a save or step is under way. */
  get isBusy(): boolean {
    return this.#savesUnderWay > 0 || this.#effects.isBusy;
  }

  /** Saves and steps wait while the session is being deleted; if it is, they begin it anew. */
  pauseFor(ending: Promise<boolean>): void {
    this.forgetShadow(); // so that what is captured meanwhile is whole
    this.#isEnding = true;
    this.#savesUnderWay++;
    const end = (isDeleted: boolean): void => {
      this.#isEnding = false;
      this.#savesUnderWay--;
      if (isDeleted) this.restart();
      else this.#line.renew();
    };
    this.#lastSave = ending.then(end, () => end(false));
  }

  /** The session was deleted: the next save begins it anew, and saves under way are refused. */
  restart(): void {
    this.#line.restart();
    this.forgetShadow();
    this.#effects = this.#openLog({ recordings: [], nextOrdinal: 0 });
  }

  /** The next save encodes the whole state again; nothing else changes. */
  forgetShadow(): void {
    this.#encoded = undefined;
  }

  #checkOpen(): void {
    if (this.#isClosed)
      throw new ClosedError(
        `Session "${this.id}" was closed, by itself or with its manager. Open it again with session() of an open manager.`,
      );
  }
}

/** The refusal of a save in the words of a session: what a program does about another one that writes its branch. Other errors stay. */
function explainMove(error: unknown, branch: string): unknown {
  if (!isRefused(error, 'moved')) return error;
  const { sessionId, kind, name, expected, found } = error.details;
  if (kind !== 'branch' || name !== branch || found === null) return error;
  const change = expected === null ? `was begun, and is at ${found}` : `moved from ${expected} to ${found}`;
  return new ConflictError(
    `Another process, or another Session object, writes session "${sessionId}": branch "${name}" ${change}. Open it again with manager.session(id) and the same options, and go on from there, or let one write at a time with session.lease().`,
    { details: error.details, cause: error },
  );
}
