import type { Draft } from 'mutative';
import { withCallSite } from '../../core/call-site.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { anything, checkOptions, checkValue, type OptionChecks, wholeFrom } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, name as nameCheck, type SessionId } from '../../core/record/id.ts';
import { type OwnSave, SAVES_ITSELF } from '../agent/agent.ts';
import * as branching from '../branch/branching.ts';
import { FORK_CHECKS, type Forking, type ForkOptions } from '../branch/branching.ts';
import { type CheckpointComparison, compare } from '../branch/compare.ts';
import { digestInput, type InputDigest } from '../effect/input-digest.ts';
import type { FinishedStep, StepAttempt, StepOptions } from '../effect/step.ts';
import type { Engine } from '../engine/engine.ts';
import { readState } from '../engine/loading.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import type { HeldLease, Lease, LeaseOptions } from '../lease/lease.ts';
import { PRUNE_CHECKS } from '../retention/retention-policy.ts';
import type { PruneOptions, PruneResult, RetentionRunner } from '../retention/retention-runner.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { checkSession } from '../revision/revision.ts';
import { readLive } from '../revision/rounds.ts';
import type { SessionOpener } from '../write/session-opener.ts';
import { checkGiven, checkState, type SessionOptions } from '../write/session-options.ts';
import type { SessionWriter } from '../write/session-writer.ts';

/** How a session is forked: where, and as `fork` of the manager says. */
export type SessionForkOptions<State> = ForkOptions<State> & {
  /** Default: the head. */
  readonly at?: string | undefined;
};

/** Which part of a history is wanted, newest first. */
export type HistoryOptions = {
  /** Where to begin; default: the head. */
  readonly from?: string | undefined;
  /** At most this many; default 50. */
  readonly limit?: number | undefined;
};

/** What the function of `update` may not return: a promise, which nobody would await, and a state that lacks fields. */
type Returnable<Returned, State> = [Returned] extends [never]
  ? unknown
  : Returned extends PromiseLike<unknown>
    ? never
    : Returned extends Partial<State>
      ? [Returned] extends [State]
        ? unknown
        : never
      : unknown;

const RUNS_AGAIN =
  "With replayFrom: 'start' the program runs again, and update() would change once more what it made before. Pass initial to session(), from which the state begins again, or use save(state).";
const DEFAULT_LIMIT = 50;
const HISTORY_CHECKS: OptionChecks<HistoryOptions> = { from: anything, limit: wholeFrom(1) };

/** What a session asks of the manager that opened it. */
export type SessionHost = {
  readonly engine: Engine;
  readonly sessions: SessionOpener;
  readonly retention: RetentionRunner;
};

/**
 * The recorded life of one agent or group, opened for writing on one branch. Wherever a checkpoint is named, a revision names it: an id
 * or its beginning, a branch, a tag, `@~2`, `message 3`.
 */
export class Session<State = unknown> {
  readonly id: SessionId;
  /** Whether there was something to go on from when it was opened. */
  readonly isResumed: boolean;
  readonly #host: SessionHost;
  readonly #options: SessionOptions<State>;
  #writer: SessionWriter;
  /** What a program that runs again left, if nobody said what it began with. */
  readonly #found: unknown;
  /** Where it was before each rewind that was not undone. */
  readonly #left: string[] = [];

  /** @internal Sessions are opened by a manager. */
  constructor(host: SessionHost, writer: SessionWriter, options: SessionOptions<State>) {
    this.id = writer.id;
    this.isResumed = writer.head !== undefined;
    this.#host = host;
    this.#writer = writer;
    this.#options = options;
    host.sessions.closeWithout(this, writer);
    if (options.replayFrom === 'start' && options.initial === undefined) this.#found = writer.state;
  }

  get isClosed(): boolean {
    return this.#writer.isClosed;
  }

  get branch(): string {
    return this.#writer.branch;
  }

  /** The checkpoint the branch is at; undefined before the first save. */
  get head(): Checkpoint | undefined {
    return this.#writer.head;
  }

  /** The state: `initial`, what was loaded, or what was last saved; with `replayFrom: 'start'` it begins at `initial` again. It is yours to change and `save`, which nothing else does for you, `close` neither; after `update` it is frozen, and only `update` changes it. */
  get state(): State {
    return this.#writer.state as State;
  }

  /** Saves the state. */
  save(): Promise<CheckpointId>;
  /**
   * Saves another state, which replaces it. It is read before this returns, so it may be changed at once. Resolves when the checkpoint
   * is durable; rejects without a trace in the history, and the session can go on.
   */
  save(state: State, options?: SaveOptions): Promise<CheckpointId>;
  save(...given: [state?: State, options?: SaveOptions]): Promise<CheckpointId> {
    const [state, options = {}] = given.length === 0 ? [this.state] : given;
    if (state === undefined && this.state !== undefined)
      return Promise.reject(new InvalidInputError('save(undefined) would lose the state. save() saves session.state.'));
    return withCallSite(this.#during(this.#writer.save(state, options)));
  }

  /** @internal What `manager.save` and `workers.saveGroup` save of it: its state, as `save()` does. */
  [SAVES_ITSELF](): OwnSave {
    return { session: this.#writer, state: this.state, options: {} };
  }

  /** Who waits for a call need not hold the session: it is not closed before that has ended. */
  #during<Result>(call: Promise<Result>): Promise<Result> {
    const hold = (): unknown => this.#writer;
    call.then(hold, hold);
    return call;
  }

  /**
   * Changes a draft of the state, or takes the new state that the function returns, and saves it; then `state` is frozen, and later saves cost what changed. A function that throws, and a
   * save that fails, leave the state as it was.
   */
  update<Change extends (draft: Draft<State>) => unknown>(
    change: Change & Returnable<ReturnType<Change>, State>,
    options: SaveOptions = {},
  ): Promise<CheckpointId> {
    if (this.state !== undefined && this.state === this.#found)
      return Promise.reject(new InvalidInputError(RUNS_AGAIN));
    return withCallSite(this.#during(this.#writer.update(change, options)));
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
    return this.#during(this.#writer.step(name, run, options)); // nothing in between: a save there would count a result that nobody has yet
  }

  /** The checkpoint of a revision, without its state; throws a NotFoundError if there is none. */
  async find(revision: string): Promise<Checkpoint> {
    await this.#host.engine.settled();
    const head = (): CheckpointId => this.#openHead(revision).id;
    return resolveRevision(this.#host.engine, { sessionId: this.id, head }, revision);
  }

  /** The checkpoint of a revision that something is done to: one of another session can only be read from here. */
  async #findOwn(revision: string): Promise<CheckpointId> {
    const { id, sessionId } = await this.find(revision);
    checkSession(id, { sessionId, asked: this.id });
    return id;
  }

  #openHead(asked: string): Checkpoint {
    if (this.head !== undefined) return this.head;
    throw new InvalidInputError(`Session "${this.id}" has no checkpoint yet, so "${asked}" names none. Save it first.`);
  }

  /** The state of a checkpoint, as new data that is the caller's own. */
  async load(revision: string): Promise<State> {
    const { id } = await this.find(revision);
    const state = await readState(this.#host.engine, await this.#host.engine.repository.open(id));
    const { schema } = this.#options;
    return schema === undefined ? (state as State) : checkState(schema, state, id);
  }

  /** The checkpoints that led to the head, or to another one, newest first. */
  async history(options: HistoryOptions = {}): Promise<Checkpoint[]> {
    checkOptions(options, HISTORY_CHECKS, 'session.history()');
    const { from = '@', limit = DEFAULT_LIMIT } = options;
    if (from === '@' && this.head === undefined) return [];
    const found: Checkpoint[] = [];
    for await (const checkpoint of readLive(this.#host.engine.storage, await this.find(from)))
      if (found.push(checkpoint) === limit) break;
    return found;
  }

  /** What changed from one checkpoint to another, or to the head; without arguments, from the parent of the head to the head. */
  async diff(before = '@~1', after = '@'): Promise<CheckpointComparison> {
    const [{ id: beforeId }, { id: afterId }] = [await this.find(before), await this.find(after)];
    return compare(this.#host.engine, beforeId, afterId);
  }

  /** Opens a session on a new branch that begins at a checkpoint, with its state changed by `edit`. This one stays where it is. */
  async fork(options: SessionForkOptions<State> = {}): Promise<Session<State>> {
    checkOptions(options, { ...FORK_CHECKS, at: anything }, 'session.fork()');
    const { at = '@', ...how } = options;
    const id = await this.#findOwn(at);
    const { branch } = await branching.fork(this.#host.engine, id, await this.#checked(id, how));
    return new Session(this.#host, await this.#openWriter(branch), this.#options);
  }

  /**
   * Goes back to an earlier checkpoint: `state` is as it was there, and saves go on in a new branch, which is the current one from now
   * on. What came after stays in the branch that was left.
   */
  async rewind(revision: string, options: ForkOptions<State> = {}): Promise<void> {
    checkOptions(options, FORK_CHECKS, 'session.rewind()');
    const id = await this.#findOwn(revision);
    this.#checkNoLease('rewind');
    const left = this.branch;
    const { branch } = await branching.rewind(this.#host.engine, id, {
      ...(await this.#checked(id, options)),
      from: left,
    });
    await this.#moveTo(branch);
    this.#left.push(left);
  }

  /** Takes back the last rewind of this session: it goes on where it was before. The branch that the rewind made stays. */
  async undo(): Promise<void> {
    const left = this.#left.at(-1);
    if (left === undefined)
      throw new InvalidInputError(
        `There is nothing to undo: session "${this.id}" was not rewound since it was opened.`,
      );
    this.#checkNoLease('undo');
    await branching.switchBranch(this.#host.engine, this.id, left);
    await this.#moveTo(left);
    this.#left.pop();
  }

  /** Names the head, or another checkpoint. Tags do not move, and protect what they name. */
  async tag(name: string, revision = '@'): Promise<CheckpointId> {
    checkValue(name, nameCheck, 'A tag');
    return branching.tag(this.#host.engine, await this.#findOwn(revision), name);
  }

  /** Applies the retention policy, or another one, to this session; with `dryRun` only says what it would do and why. */
  async prune(options: Omit<PruneOptions, 'sessionId'> = {}): Promise<PruneResult> {
    checkOptions(options, PRUNE_CHECKS, 'session.prune()');
    return this.#host.retention.prune({ ...options, sessionId: this.id });
  }

  /**
   * Takes the lease of the branch, or renews the one this session holds. From then on every save and step is refused with a
   * ConflictError once someone else took the lease over. It binds those who ask for one: a session without a lease may
   * still write, as far as the head lets it.
   */
  lease(options: LeaseOptions = {}): Promise<Lease> {
    return withCallSite(this.#during(this.#writer.lease(options)));
  }

  /** Waits for saves under way and releases the lease. Idempotent. The storage stays open. */
  close(): Promise<void> {
    return this.#writer.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** A lease is for one branch: whoever leaves it says so first. */
  #checkNoLease(what: string): void {
    if (this.#writer.hasLease)
      throw new InvalidInputError(
        `${what}() leaves branch "${this.branch}", and this session holds its lease. Release the lease first.`,
      );
  }

  /** Refuses what could not be opened before a branch is made of it: as the current one it would keep the session from opening. */
  async #checked(id: CheckpointId, options: ForkOptions<State>): Promise<Forking> {
    const { schema } = this.#options;
    if (options.edit === undefined) await this.load(id);
    return schema === undefined
      ? options
      : { ...options, check: (state) => checkGiven(schema, state, 'The edited state') };
  }

  #openWriter(branch: string): Promise<SessionWriter> {
    const { replayBranch: _, replayFrom: __, ...options } = this.#options;
    return this.#host.sessions.open(this.id, { ...options, branch });
  }

  async #moveTo(branch: string): Promise<void> {
    const left = this.#writer;
    this.#writer = await this.#openWriter(branch);
    this.#host.sessions.closeWithout(this, this.#writer);
    await left.close();
  }

  /** @internal Versions that the state went through when it was loaded; none since it was saved. */
  get migratedThrough(): readonly number[] {
    return this.#writer.migratedThrough;
  }

  /** @internal The digest of a value as a step's input has it. Throws if it cannot be saved. */
  digestOf(value: unknown): InputDigest {
    return digestInput(this.#host.engine.codec, value);
  }

  /** @internal What an earlier process recorded of a named work, and the work has not asked for yet. */
  finishedStepsOf(work: string): Promise<FinishedStep[]> {
    return this.#writer.effects.finishedOf(work);
  }

  /** @internal Lets go of what was recorded under the name of a step, for a caller whose state counts it. */
  letGo(name: string): void {
    this.#writer.effects.letGo(name);
  }

  /** @internal Lets go of what was recorded of a named work that is over; until then checkpoints keep it. */
  settleWork(name: string): void {
    this.#writer.effects.settle(name);
  }
}

/** Opens a session at the head of a branch; with a lease its commits stand under that, and the caller ends it. */
export async function openSession<State>(
  host: SessionHost,
  { sessionId, lease }: { readonly sessionId: string; readonly lease?: HeldLease },
  options: SessionOptions<State>,
): Promise<Session<State>> {
  const writer = await host.sessions.open(sessionId, options, lease === undefined ? {} : { lease });
  return new Session(host, writer, options);
}
