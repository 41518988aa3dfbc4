import { isOutcomeUnknown } from '../../core/errors.ts';
import { anything, type OptionChecks, signal } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { Commit, EffectRow, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import type { HeldLease } from '../lease/lease.ts';
import { placeEffect } from './effect-place.ts';
import {
  type EffectRecord,
  effectKey,
  encodeFailure,
  encodeOutcome,
  formatEffect,
  type RecordedEffect,
} from './effect-record.ts';
import { checkHead, checkMark, moveMark } from './effect-refs.ts';
import { digestInput, type InputDigest } from './input-digest.ts';
import { describeMismatch, identityOf, type OpenedLog, type StepIdentity, StepRecordings } from './step-recordings.ts';

/**
 * `live`: run, except what a crash left finished. `recorded`: use recordings while inputs match, then go live.
 * `frozen`: only recordings.
 */
export type EffectMode = 'live' | 'recorded' | 'frozen';

/** What a step's function gets: which attempt this is, and its key. */
export type StepAttempt = {
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal | undefined;
};

/** An attempt on another branch that a step goes on from: it keeps the key. */
export type EarlierAttempt = Omit<StepAttempt, 'signal'>;

/** How a step is made. */
export type StepOptions = {
  /** Give one to each of several steps of one name: a recording is found by name and input, whatever the order. */
  readonly input?: unknown;
  /** Passed on to the step's function; once it is aborted, the step does not begin. */
  readonly signal?: AbortSignal | undefined;
  /** @internal */
  readonly work?: WorkPlace | undefined;
};

export const STEP_CHECKS: OptionChecks<StepOptions> = { input: anything, signal, work: anything };

/** Where a step belongs whose key and place follow from a named piece of work, and not from the attempt. */
export type WorkPlace = {
  readonly name: string;
  /** The digest of its input; null if it has none. */
  readonly digest: InputDigest | null;
  /** Which of several equal calls of the work it is, from 0. */
  readonly nth: number;
  readonly key: string;
  /** The name under which an older version recorded it. */
  readonly formerly?: string | undefined;
  /** Asked once, if the branch has no recording of it. */
  readonly recall?: (() => EarlierAttempt | undefined) | undefined;
};

/** A step of a work that ended, as it was recorded. */
export type FinishedStep = Pick<WorkPlace, 'digest' | 'nth'> & { readonly name: string; readonly result: unknown };

/** The branch that a log belongs to, as far as a log needs it. */
export type EffectLine = {
  /** What the branch is at in the storage. */
  readonly storedHead: Checkpoint | undefined;
  readonly lease: HeldLease | undefined;
  /** Commits in the order of the calls, under the lease of now unless another is given. */
  commit(commit: Commit, lease?: HeldLease): Promise<unknown>;
};

/** Which log a session writes, and how it uses recordings. */
export type EffectLogOptions = OpenedLog & {
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly mode: EffectMode;
};

/** A result on its way to whoever asked for it. */
export type Delivered<Result> = { readonly result: Result; readonly seen: () => void };

/** A step that was asked for. */
type Asked = StepIdentity & Pick<Partial<WorkPlace>, 'key' | 'formerly' | 'recall'>;

/** A step to run, the recording it goes on from, and the lease it begins under: its outcome is refused if that is over. */
type Begun = {
  readonly record: EffectRecord;
  readonly earlier: RecordedEffect | undefined;
  readonly lease: HeldLease | undefined;
};

/** How a step ended. */
type Outcome = Pick<EffectRecord, 'status' | 'durationMs'> & { readonly encoded: ReturnType<typeof encodeOutcome> };

/**
 * The effects of one branch. A finished step is never run again: its result is durable before it is handed out, and
 * after a crash its recording is found by name and input.
 */
export class EffectLog {
  readonly #engine: Engine;
  /** Its stored head is the branch's now: a step is refused if the branch has moved on. */
  readonly #line: EffectLine;
  readonly #options: EffectLogOptions;
  readonly #recordings: StepRecordings;
  readonly #inFlight = new Set<number>();
  #mode: EffectMode;
  #nextOrdinal: number;
  /** How many effects the storage has for certain. */
  #storedCount: number;
  readonly #beginnings = new Set<Promise<unknown>>();
  /** A beginning that got no answer may be stored: nobody knows where the log is. */
  #isInDoubt = false;

  constructor(engine: Engine, line: EffectLine, options: EffectLogOptions) {
    this.#engine = engine;
    this.#line = line;
    this.#options = options;
    this.#mode = options.mode;
    this.#nextOrdinal = options.nextOrdinal;
    this.#storedCount = options.nextOrdinal;
    this.#recordings = new StepRecordings(options);
  }

  /** Whether a step is under way. */
  get isBusy(): boolean {
    return this.#inFlight.size > 0;
  }

  /**
   * What a checkpoint saved now has to say about the log. It counts what is stored: whatever comes later comes after it. So does what a
   * step may still be given: after a restart it finds the same.
   */
  get position(): ReturnType<StepRecordings['positionAt']> {
    return this.#recordings.positionAt(this.#storedCount, this.#inFlight);
  }

  /** Checks that no other writer recorded a step on the branch: a checkpoint would take it for one of its own. */
  get checks(): RefChange[] {
    return this.#isInDoubt ? [] : [checkMark(this.#options.branch, this.#nextOrdinal)];
  }

  /** Until its result was seen, a step counts as in flight: a state that is saved before does not hold the result. */
  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options: StepOptions = {},
  ): Promise<Delivered<Result>> {
    options.signal?.throwIfAborted();
    const asked = this.#identify(name, options);
    const recorded = this.#takeRecording(asked);
    if (recorded?.status === 'done') return (await this.#reuse(recorded)) as Delivered<Result>;
    if (recorded?.status === 'failed' && this.#mode === 'frozen') throw await this.#decode(recorded.result);
    return this.#run(this.#describe(asked, recorded), run, options.signal);
  }

  #identify(name: string, options: StepOptions): Asked {
    const { work } = options;
    if (work === undefined)
      return 'input' in options ? { name, inputDigest: digestInput(this.#engine.codec, options.input) } : { name };
    const { digest, nth, key, formerly, recall } = work;
    return { name, work: work.name, inputDigest: digest ?? undefined, nth, key, formerly, recall };
  }

  /** The steps of a work that ended in an earlier process, and that the work has not asked for yet. */
  async finishedOf(work: string): Promise<FinishedStep[]> {
    const done = this.#recordings.unseenOf(work).filter(({ status }) => status === 'done');
    return Promise.all(
      done.map(async ({ name, inputDigest, nth = 0, result }) => ({
        name,
        digest: inputDigest ?? null,
        nth,
        result: await this.#decode(result),
      })),
    );
  }

  /** Lets go of what was recorded under a name, without an input: nobody asks for it any more. */
  letGo(name: string): void {
    this.#recordings.letGo(name);
  }

  /** Lets go of the recordings of a work that is over: nobody asks for them any more. */
  settle(work: string): void {
    this.#recordings.settle(work);
  }

  /** Resolves when every beginning that is under way is stored, or has failed. */
  async beginningsStored(): Promise<void> {
    await Promise.allSettled(this.#beginnings);
  }

  /** The recording of this step, if there is one and the mode lets it be used. */
  #takeRecording(asked: Asked): RecordedEffect | undefined {
    const { name, inputDigest } = asked;
    const isFrozen = this.#mode === 'frozen';
    const recorded = this.#recordings.take(asked, { isExact: isFrozen });
    if (recorded?.status === 'dropped' || (isFrozen && (recorded === undefined || recorded.status === 'started')))
      throw describeMismatch(name, recorded ?? this.#recordings.findOther(name), inputDigest);
    if (recorded === undefined && this.#mode === 'recorded') this.#goLive();
    return recorded;
  }

  /** After the first divergence nothing recorded fits any more. */
  #goLive(): void {
    this.#mode = 'live';
    this.#recordings.clear();
  }

  async #reuse(recorded: RecordedEffect): Promise<Delivered<unknown>> {
    const { branch, result, ...record } = recorded;
    const isOwn = branch === this.#options.branch;
    const ordinal = isOwn ? record.ordinal : this.#nextOrdinal;
    this.#inFlight.add(ordinal);
    try {
      if (!isOwn)
        await this.#begin({ ...record, ordinal, replayedFrom: { branch, ordinal: record.ordinal } }, { result });
      return this.#deliver(await this.#decode(result), ordinal);
    } catch (error) {
      this.#inFlight.delete(ordinal);
      throw error;
    }
  }

  #deliver<Result>(result: Result, ordinal: number): Delivered<Result> {
    return { result, seen: () => void this.#inFlight.delete(ordinal) };
  }

  async #run<Result>(
    begun: Begun,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    signal: AbortSignal | undefined,
  ): Promise<Delivered<Result>> {
    const { record, earlier } = begun;
    const { ordinal, attempt, idempotencyKey } = record;
    this.#inFlight.add(ordinal);
    try {
      const found = await this.#beginAgain(record, earlier);
      const result = found
        ? this.#decode(found.result)
        : this.#settle(begun, () => run({ attempt, idempotencyKey, signal }));
      return this.#deliver((await result) as Result, ordinal);
    } catch (error) {
      this.#inFlight.delete(ordinal);
      throw error;
    }
  }

  /** A step that is tried again keeps its key and, unless the head counts it as over, its place. */
  #describe(asked: Asked, recorded: RecordedEffect | undefined): Begun {
    const { branch } = this.#options;
    const own = recorded?.branch === branch ? recorded : undefined;
    const ordinal = own !== undefined && this.#isAfterHead(own) ? own.ordinal : this.#nextOrdinal;
    const after = this.#line.storedHead;
    const record: EffectRecord = {
      ...(own === undefined ? this.#nameNew(asked, ordinal) : { ...identityOf(own), attempt: own.attempt + 1 }),
      ordinal,
      status: 'started',
      ...(after !== undefined && { afterId: after.id }),
      startedAtMs: this.#engine.ports.now(),
    };
    return { record, earlier: own, lease: this.#line.lease };
  }

  #nameNew(asked: Asked, ordinal: number): ReturnType<typeof identityOf> & Pick<EffectRecord, 'attempt'> {
    const { sessionId, branch } = this.#options;
    const { name, key = effectKey(sessionId, branch, { ordinal, name }), recall } = asked;
    const earlier = recall?.() ?? { idempotencyKey: key, attempt: 0 };
    return { ...identityOf({ ...asked, ...earlier }), attempt: earlier.attempt + 1 };
  }

  /** Whether the head does not count it: a failure that does stays, for the state that was saved may tell of it. */
  #isAfterHead({ ordinal, status }: RecordedEffect): boolean {
    const head = this.#line.storedHead;
    if (head?.branch !== this.#options.branch) return true;
    const { effectCount = 0, effectsInFlight = [] } = head.header;
    return ordinal >= effectCount || (status !== 'failed' && effectsInFlight.includes(ordinal));
  }

  /** Goes on from an earlier attempt, if there was one. If the beginning cannot be stored, that is there for the next call. */
  async #beginAgain(record: EffectRecord, earlier: RecordedEffect | undefined): Promise<RecordedEffect | undefined> {
    if (earlier === undefined) return this.#begin(record);
    try {
      const { branch: _, result, ...before } = earlier;
      return await this.#begin(record, { over: this.#format(before, result).digest });
    } catch (error) {
      this.#recordings.keepForRetry(earlier);
      throw error;
    }
  }

  /** Notes the beginning, or a result taken over. Two writers on one branch collide here, before anything runs twice. */
  async #begin(
    record: EffectRecord,
    { result, over }: { readonly result?: ChunkContent | undefined; readonly over?: Digest } = {},
  ): Promise<RecordedEffect | undefined> {
    const { sessionId, branch } = this.#options;
    const isNew = record.ordinal >= this.#nextOrdinal;
    if (isNew) this.#nextOrdinal = record.ordinal + 1;
    const refs = [...(isNew ? [moveMark(branch, record.ordinal)] : []), checkHead(branch, this.#line.storedHead)];
    const placement = { record, row: this.#format(record, result), over: isNew ? undefined : over };
    return placeEffect(this.#engine.storage, placement, (effect) =>
      this.#takePlace(record.ordinal, { sessionId, effects: [effect], refs, durability: 'relaxed' }),
    );
  }

  /** A beginning that could not be stored gives its place back, as soon as no other waits to be stored behind it. */
  async #takePlace(ordinal: number, commit: Commit): Promise<void> {
    const beginning = this.#line.commit(commit);
    this.#beginnings.add(beginning);
    try {
      await beginning;
      this.#storedCount = Math.max(this.#storedCount, ordinal + 1);
    } catch (error) {
      this.#isInDoubt ||= isOutcomeUnknown(error);
      throw error;
    } finally {
      this.#beginnings.delete(beginning);
      if (this.#beginnings.size === 0) this.#nextOrdinal = this.#storedCount;
    }
  }

  /**
   * Runs the function and makes its outcome durable before anyone sees it. If another process, which took this one for dead, has
   * recorded a result of the same step, that is the outcome.
   */
  async #settle(begun: Begun, run: () => unknown): Promise<unknown> {
    const { now } = this.#engine.ports;
    const startedAtMs = now();
    let result: unknown;
    let encoded: Outcome['encoded'];
    try {
      result = await run();
      encoded = encodeOutcome(this.#engine.codec, begun.record.name, result);
    } catch (error) {
      const found = await this.#recordFailure(begun, error, now() - startedAtMs);
      if (found === undefined) throw error;
      return this.#decode(found.result);
    }
    const found = await this.#record(begun, { status: 'done', encoded, durationMs: now() - startedAtMs });
    return found === undefined ? result : this.#decode(found.result);
  }

  /** What did not end well is kept for the next call of the same identity. */
  async #record({ record, lease }: Begun, { encoded, ...ended }: Outcome): Promise<RecordedEffect | undefined> {
    const { sessionId, branch } = this.#options;
    const { root, chunks } = encoded;
    const outcome = { ...record, ...ended };
    const isFailed = ended.status === 'failed';
    let isOver = false;
    try {
      const placement = { record: outcome, row: this.#format(outcome, root), over: this.#format(record).digest };
      const found = await placeEffect(this.#engine.storage, placement, (effect) =>
        this.#line.commit({ sessionId, chunks, effects: [effect] }, lease),
      );
      isOver = !isFailed || found !== undefined;
      return found;
    } finally {
      if (!isOver)
        this.#recordings.keepForRetry({ ...outcome, status: 'failed', branch, result: isFailed ? root : undefined });
    }
  }

  #format(record: EffectRecord, result?: ChunkContent): EffectRow {
    const { sessionId, branch } = this.#options;
    return formatEffect({ sessionId, branch }, record, result);
  }

  /** The step's own error is what its caller must see; that it could not be noted is told as an event. */
  async #recordFailure(begun: Begun, error: unknown, durationMs: number): Promise<RecordedEffect | undefined> {
    try {
      const encoded = encodeFailure(this.#engine.codec, begun.record.name, error);
      return await this.#record(begun, { status: 'failed', encoded, durationMs });
    } catch (unrecorded) {
      if (isRefused(unrecorded, 'replaced')) return undefined; // another attempt is under way
      const { sessionId, branch } = this.#options;
      await this.#engine.events.emit('save_failed', unrecorded, { sessionId, branch });
      return undefined;
    }
  }

  async #decode(result: ChunkContent | undefined): Promise<unknown> {
    if (result === undefined) return undefined;
    const { codec, repository } = this.#engine;
    return codec.decode(result, await repository.loadChunks(result));
  }
}
