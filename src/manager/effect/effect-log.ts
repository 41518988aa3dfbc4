import { withoutUndefined } from '../../core/defined.ts';
import { isOutcomeUnknown } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { Commit, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import type { HeldLease } from '../lease/lease.ts';
import {
  type EffectRecord,
  effectKey,
  encodeFailure,
  encodeOutcome,
  formatEffect,
  parseEffect,
  type RecordedEffect,
} from './effect-record.ts';
import { checkHead, checkMark, moveMark } from './effect-refs.ts';
import { digestInput } from './input-digest.ts';
import type { EarlierAttempt, EffectMode, FinishedStep, StepAttempt, StepOptions, WorkPlace } from './step.ts';
import {
  describeMismatch,
  type LogPosition,
  type OpenedLog,
  type StepIdentity,
  StepRecordings,
} from './step-recordings.ts';

/** The branch that a log belongs to, as far as a log needs it. */
type EffectLine = {
  /** What the branch is at in the storage. */
  readonly storedHead: Checkpoint | undefined;
  readonly lease: HeldLease | undefined;
  /** Commits in the order of the calls, under the lease of now unless another is given. */
  commit(commit: Commit, lease?: HeldLease): Promise<unknown>;
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

/** What is to stand at a place of the log, and the digest of what stands there now, as far as is known; without one nothing can. */
type Placement = {
  readonly record: EffectRecord;
  readonly result?: ChunkContent | undefined;
  readonly over?: Digest | undefined;
};

/**
 * The effects of one branch. A finished step is never run again: its result is durable before it is handed out, and
 * after a crash its recording is found by name and input.
 */
export class EffectLog {
  readonly #engine: Engine;
  /** Its stored head is the branch's now: a step is refused if the branch has moved on. */
  readonly #line: EffectLine;
  readonly #place: { readonly sessionId: SessionId; readonly branch: string };
  readonly #recordings: StepRecordings;
  readonly #inFlight = new Set<number>();
  #mode: EffectMode;
  #nextOrdinal: number;
  /** How many effects the storage has for certain. */
  #storedCount: number;
  readonly #beginnings = new Set<Promise<unknown>>();
  /** A beginning that got no answer may be stored: nobody knows where the log is. */
  #isInDoubt = false;

  constructor(
    engine: Engine,
    line: EffectLine,
    {
      sessionId,
      branch,
      mode,
      ...log
    }: OpenedLog & { readonly sessionId: SessionId; readonly branch: string; readonly mode: EffectMode },
  ) {
    this.#engine = engine;
    this.#line = line;
    this.#place = { sessionId, branch };
    this.#mode = mode;
    this.#nextOrdinal = log.nextOrdinal;
    this.#storedCount = log.nextOrdinal;
    this.#recordings = new StepRecordings({ ...log, branch });
  }

  /** Whether a step is under way. */
  get isBusy(): boolean {
    return this.#inFlight.size > 0;
  }

  /**
   * What a checkpoint saved now has to say about the log. It counts what is stored: whatever comes later comes after it. So does what a
   * step may still be given: after a restart it finds the same.
   */
  get position(): LogPosition {
    return this.#recordings.positionAt(this.#storedCount, this.#inFlight);
  }

  /** Checks that no other writer recorded a step on the branch: a checkpoint would take it for one of its own. */
  get checks(): RefChange[] {
    return this.#isInDoubt ? [] : [checkMark(this.#place.branch, this.#nextOrdinal)];
  }

  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    { signal, ...options }: StepOptions = {},
  ): Promise<Delivered<Result>> {
    signal?.throwIfAborted();
    const asked = this.#identify(name, options);
    const recorded = this.#takeRecording(asked);
    if (recorded?.status === 'done') return this.#deliver(...this.#reuse(recorded)) as Promise<Delivered<Result>>;
    if (recorded?.status === 'failed' && this.#mode === 'frozen') throw await this.#decode(recorded.result);
    const begun = this.#describe(asked, recorded);
    const { ordinal, attempt, idempotencyKey } = begun.record;
    return this.#deliver(ordinal, async () => {
      const found = await this.#beginAgain(begun);
      const result = found
        ? this.#decode(found.result)
        : this.#settle(begun, () => run({ attempt, idempotencyKey, signal }));
      return (await result) as Result;
    });
  }

  /** Until its result was seen, a step counts as in flight: a state that is saved before does not hold the result. */
  async #deliver<Result>(ordinal: number, work: () => Promise<Result>): Promise<Delivered<Result>> {
    const seen = () => void this.#inFlight.delete(ordinal);
    this.#inFlight.add(ordinal);
    try {
      return { result: await work(), seen };
    } catch (error) {
      seen();
      throw error;
    }
  }

  #identify(name: string, options: StepOptions): Asked {
    const { work } = options;
    if (work === undefined)
      return 'input' in options ? { name, inputDigest: digestInput(this.#engine.codec, options.input) } : { name };
    const { digest, nth, key, formerly, recall } = work;
    return { name, work: work.name, inputDigest: digest ?? undefined, nth, key, formerly, recall };
  }

  /** What an earlier process recorded of a named work, and the work has not asked for yet. */
  async finishedOf(work: string): Promise<FinishedStep[]> {
    const done = this.#recordings.unseenOf(work).filter(({ status }) => status === 'done');
    return Promise.all(
      done.map(async ({ name, inputDigest: digest = null, nth = 0, result }) => {
        return { name, digest, nth, result: await this.#decode(result) };
      }),
    );
  }

  /** Lets go of what was recorded under the name of a step, without an input, for a caller whose state counts it. */
  letGo(name: string): void {
    this.#recordings.letGo(name);
  }

  /** Lets go of what was recorded of a named work that is over; until then checkpoints keep it. */
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
    if (recorded === undefined && this.#mode === 'recorded') {
      this.#mode = 'live'; // after the first divergence nothing recorded fits any more
      this.#recordings.clear();
    }
    return recorded;
  }

  /** The place of a result that is there, and how to get it; one of another branch is noted here, too. */
  #reuse({ branch, result, ...record }: RecordedEffect): [ordinal: number, work: () => Promise<unknown>] {
    if (branch === this.#place.branch) return [record.ordinal, () => this.#decode(result)];
    const ordinal = this.#nextOrdinal;
    const replayed: EffectRecord = { ...record, ordinal, replayedFrom: { branch, ordinal: record.ordinal } };
    const take = async () => {
      await this.#begin({ record: replayed, result });
      return this.#decode(result);
    };
    return [ordinal, take];
  }

  /** A step that is tried again keeps its key and, unless the head counts it as over, its place. */
  #describe(asked: Asked, recorded: RecordedEffect | undefined): Begun {
    const own = recorded?.branch === this.#place.branch ? recorded : undefined;
    const ordinal = own !== undefined && this.#isAfterHead(own) ? own.ordinal : this.#nextOrdinal;
    const { idempotencyKey, attempt } = own ?? this.#keyOf(asked, ordinal);
    const { name, inputDigest, work, nth } = own ?? asked;
    const identity = { name, idempotencyKey, inputDigest, work, nth, attempt: attempt + 1, ordinal };
    const afterId = this.#line.storedHead?.id;
    const startedAtMs = this.#engine.ports.now();
    const record: EffectRecord = withoutUndefined({ ...identity, status: 'started' as const, afterId, startedAtMs });
    return { record, earlier: own, lease: this.#line.lease };
  }

  /** Whose attempt a step goes on from, of which the branch has no recording. */
  #keyOf({ name, key, recall }: Asked, ordinal: number): EarlierAttempt {
    const { sessionId, branch } = this.#place;
    return recall?.() ?? { idempotencyKey: key ?? effectKey(sessionId, branch, { ordinal, name }), attempt: 0 };
  }

  /** Whether the head does not count it: a failure that does stays, for the state that was saved may tell of it. */
  #isAfterHead({ ordinal, status }: RecordedEffect): boolean {
    const head = this.#line.storedHead;
    if (head?.branch !== this.#place.branch) return true;
    const { effectCount = 0, effectsInFlight = [] } = head.header;
    return ordinal >= effectCount || (status !== 'failed' && effectsInFlight.includes(ordinal));
  }

  /** Goes on from an earlier attempt, if there was one. If the beginning cannot be stored, that is there for the next call. */
  async #beginAgain({ record, earlier }: Begun): Promise<RecordedEffect | undefined> {
    if (earlier === undefined) return this.#begin({ record });
    try {
      const { branch: _, result, ...before } = earlier;
      return await this.#begin({ record, over: this.#format(before, result).digest });
    } catch (error) {
      this.#recordings.keepForRetry(earlier);
      throw error;
    }
  }

  /** Notes the beginning, or a result taken over. Two writers on one branch collide here, before anything runs twice. */
  async #begin({ over, ...placement }: Placement): Promise<RecordedEffect | undefined> {
    const { branch } = this.#place;
    const { ordinal } = placement.record;
    const isNew = ordinal >= this.#nextOrdinal;
    if (isNew) this.#nextOrdinal = ordinal + 1;
    const refs = [...(isNew ? [moveMark(branch, ordinal)] : []), checkHead(branch, this.#line.storedHead)];
    return this.#store({ ...placement, over: isNew ? undefined : over }, (commit) =>
      this.#takePlace(ordinal, { ...commit, refs, durability: 'relaxed' }),
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
    const { root, chunks } = encoded;
    const outcome = { ...record, ...ended };
    const isFailed = ended.status === 'failed';
    let isOver = false;
    try {
      const found = await this.#store({ record: outcome, result: root, over: this.#format(record).digest }, (commit) =>
        this.#line.commit({ ...commit, chunks }, lease),
      );
      isOver = !isFailed || found !== undefined;
      return found;
    } finally {
      const { branch } = this.#place;
      if (!isOver)
        this.#recordings.keepForRetry({ ...outcome, status: 'failed', branch, result: isFailed ? root : undefined });
    }
  }

  /** The step's own error is what its caller must see; that it could not be noted is told as an event. */
  async #recordFailure(begun: Begun, error: unknown, durationMs: number): Promise<RecordedEffect | undefined> {
    try {
      const encoded = encodeFailure(this.#engine.codec, begun.record.name, error);
      return await this.#record(begun, { status: 'failed', encoded, durationMs });
    } catch (unrecorded) {
      if (isRefused(unrecorded, 'replaced')) return undefined; // another attempt is under way
      await this.#engine.events.emit('save_failed', unrecorded, this.#place);
      return undefined;
    }
  }

  /**
   * Stores a row at a place where another process may record, too. A result that stands there stays, whoever brought it, and is returned.
   * Throws the storage's ConflictError if another attempt has begun since, or nothing is there any more.
   */
  async #store(
    { record, result, over }: Placement,
    commit: (commit: Commit) => Promise<unknown>,
  ): Promise<RecordedEffect | undefined> {
    const { sessionId } = this.#place;
    const row = this.#format(record, result);
    for (let known = over; ; ) {
      try {
        await commit({ sessionId, effects: [known === undefined ? row : { ...row, expect: known }] });
        return undefined;
      } catch (error) {
        const standing = isRefused(error, 'replaced') ? await this.#readPlace(record.ordinal) : undefined;
        if (standing === undefined || standing.digest === known) throw error;
        const found = parseEffect(standing);
        if (found.status === 'done') return found;
        if (!mayReplace(record, found)) throw error;
        known = standing.digest;
      }
    }
  }

  async #readPlace(ordinal: number) {
    const [first] = await this.#engine.storage.readEffects({ ...this.#place, fromOrdinal: ordinal });
    return first?.ordinal === ordinal ? first : undefined;
  }

  #format(record: EffectRecord, result?: ChunkContent) {
    return formatEffect(this.#place, record, result);
  }

  async #decode(result: ChunkContent | undefined): Promise<unknown> {
    if (result === undefined) return undefined;
    const { codec, repository } = this.#engine;
    return codec.decode(result, await repository.loadChunks(result));
  }
}

/** A result counts more than any attempt without one; else the later attempt counts. */
function mayReplace({ status, attempt }: EffectRecord, found: EffectRecord): boolean {
  if (found.status === 'dropped') return false;
  return status === 'done' || found.attempt < attempt || (status === 'failed' && found.attempt === attempt);
}
