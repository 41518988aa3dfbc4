import type { Checkpoint } from '../core/checkpoint.ts';
import type { ChunkContent, Digest } from '../core/chunk.ts';
import { InvalidInputError, ReplayMismatchError } from '../core/errors.ts';
import { parseName, type SessionId } from '../core/id.ts';
import type { ManagerContext } from './context.ts';
import { type EffectRecord, effectKey, formatEffect, parseEffect, type RecordedEffect } from './effect-record.ts';

/**
 * `live`: run, except what a crash left finished. `recorded`: use recordings while inputs match, then go live.
 * `frozen`: only recordings.
 */
export type EffectMode = 'live' | 'recorded' | 'frozen';

/** What a step's function is told about this attempt. */
export type StepAttempt = {
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal | undefined;
};

export type StepOptions = { readonly input?: unknown; readonly signal?: AbortSignal };

/** Which log a session writes, and which recordings it may use. */
export type EffectLogOptions = {
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly mode: EffectMode;
  readonly recordings: readonly RecordedEffect[];
  readonly nextOrdinal: number;
  /** The head now; a step is refused if the branch has moved on in storage. */
  readonly head: () => Checkpoint | undefined;
};

type Begun = { readonly record: EffectRecord; readonly inputDigest: Digest | undefined };

/**
 * The effects of one branch. A finished step is never run again: its result is durable before it is handed out, and
 * after a crash the recordings are used up in order, name by name.
 */
export class EffectLog {
  readonly #context: ManagerContext;
  readonly #options: EffectLogOptions;
  readonly #recordings = new Map<string, RecordedEffect[]>();
  readonly #inFlight = new Set<number>();
  #mode: EffectMode;
  #nextOrdinal: number;

  constructor(context: ManagerContext, options: EffectLogOptions) {
    this.#context = context;
    this.#options = options;
    this.#mode = options.mode;
    this.#nextOrdinal = options.nextOrdinal;
    for (const effect of options.recordings) {
      const known = this.#recordings.get(effect.name) ?? [];
      known.push(effect);
      this.#recordings.set(effect.name, known);
    }
  }

  /** What a checkpoint saved now has to say about the log. */
  get position(): { effectCount?: number; effectsInFlight?: readonly number[] } {
    if (this.#nextOrdinal === 0) return {};
    const inFlight = [...this.#inFlight];
    return { effectCount: this.#nextOrdinal, ...(inFlight.length > 0 && { effectsInFlight: inFlight }) };
  }

  async step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options: StepOptions = {},
  ): Promise<Result> {
    parseName(name, 'A step name');
    options.signal?.throwIfAborted();
    const inputDigest = 'input' in options ? this.#context.codec.encode(options.input).root.digest : undefined;
    const recorded = this.#takeRecording(name, inputDigest);
    if (recorded?.status === 'done') return (await this.#reuse(recorded)) as Result;
    if (recorded?.status === 'failed' && this.#mode === 'frozen') throw await this.#decode(recorded.result);
    return this.#run({ name, inputDigest, recorded }, run, options.signal);
  }

  /** The next recording of this name, if the mode and the input let it be used. */
  #takeRecording(name: string, inputDigest: Digest | undefined): RecordedEffect | undefined {
    const recorded = this.#recordings.get(name)?.shift();
    const isMatch = recorded !== undefined && recorded.inputDigest === inputDigest;
    if (this.#mode === 'frozen' && (!isMatch || recorded.status === 'started'))
      throw describeMismatch(name, recorded, inputDigest);
    if (isMatch) return recorded;
    if (this.#mode === 'recorded') this.#goLive();
    return undefined;
  }

  /** After the first divergence nothing recorded fits any more. */
  #goLive(): void {
    this.#mode = 'live';
    this.#recordings.clear();
  }

  async #reuse(recorded: RecordedEffect): Promise<unknown> {
    const { branch, result, ...record } = recorded;
    if (branch !== this.#options.branch) {
      const copy = { ...record, ordinal: this.#nextOrdinal, replayedFrom: { branch, ordinal: record.ordinal } };
      await this.#begin(copy, result);
    }
    return this.#decode(result);
  }

  async #run<Result>(
    {
      name,
      inputDigest,
      recorded,
    }: { name: string; inputDigest: Digest | undefined; recorded: RecordedEffect | undefined },
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const begun = this.#describe(name, inputDigest, recorded);
    this.#inFlight.add(begun.record.ordinal);
    try {
      await this.#begin(begun.record);
      const { attempt, idempotencyKey } = begun.record;
      const result = await this.#settle(begun, () => run({ attempt, idempotencyKey, signal }));
      return result as Result;
    } finally {
      this.#inFlight.delete(begun.record.ordinal);
    }
  }

  #describe(name: string, inputDigest: Digest | undefined, recorded: RecordedEffect | undefined): Begun {
    const { sessionId, branch, head } = this.#options;
    const isOwn = recorded !== undefined && recorded.branch === branch;
    const ordinal = isOwn ? recorded.ordinal : this.#nextOrdinal;
    const after = head();
    const record: EffectRecord = {
      ordinal,
      name,
      status: 'started',
      attempt: isOwn ? recorded.attempt + 1 : 1,
      idempotencyKey: effectKey(sessionId, branch, { ordinal, name }),
      ...(inputDigest !== undefined && { inputDigest }),
      ...(after !== undefined && { afterId: after.id }),
      startedAtMs: this.#context.ports.now(),
    };
    return { record, inputDigest };
  }

  /** Notes the beginning, or a result taken over. Two writers on one branch collide here, before anything runs twice. */
  async #begin(record: EffectRecord, result?: ChunkContent): Promise<void> {
    const { sessionId, branch, head } = this.#options;
    const isNew = record.ordinal >= this.#nextOrdinal;
    if (isNew) this.#nextOrdinal = record.ordinal + 1;
    const headId = head()?.id;
    await this.#context.storage.commit({
      sessionId,
      effects: [formatEffect({ sessionId, branch }, record, result)],
      refs: [
        ...(isNew
          ? [{ kind: 'log' as const, name: branch, expect: logMark(record.ordinal), target: `${record.ordinal + 1}` }]
          : []),
        ...(headId === undefined ? [] : [{ kind: 'branch' as const, name: branch, expect: headId, target: headId }]),
      ],
      durability: 'relaxed',
    });
  }

  /** Runs the function and makes its outcome durable before anyone sees it. */
  async #settle(begun: Begun, run: () => unknown): Promise<unknown> {
    const startedAtMs = this.#context.ports.now();
    try {
      const result = await run();
      await this.#record(begun, {
        status: 'done',
        outcome: result,
        durationMs: this.#context.ports.now() - startedAtMs,
      });
      return result;
    } catch (error) {
      if (isUnrecorded(error)) throw error.cause;
      await this.#recordFailure(begun, error, this.#context.ports.now() - startedAtMs);
      throw error;
    }
  }

  async #record(
    { record }: Begun,
    { status, outcome, durationMs }: { status: 'done' | 'failed'; outcome: unknown; durationMs: number },
  ): Promise<void> {
    const { sessionId, branch } = this.#options;
    const { root, chunks } = this.#context.codec.encode(outcome);
    const row = formatEffect({ sessionId, branch }, { ...record, status, durationMs }, root);
    await this.#context.storage.commit({ sessionId, chunks, effects: [row] }).catch((cause: unknown) => {
      throw new UnrecordedOutcome(cause);
    });
  }

  /** The step's own error is what its caller must see; that it could not be noted is told as an event. */
  async #recordFailure(begun: Begun, error: unknown, durationMs: number): Promise<void> {
    try {
      await this.#record(begun, { status: 'failed', outcome: this.#describeError(error), durationMs });
    } catch (unrecorded) {
      const { sessionId, branch } = this.#options;
      await this.#context.events.emit('save_failed', unrecorded, { sessionId, branch });
    }
  }

  /** An error may hold anything; what cannot be saved of it is left out, and it says so. */
  #describeError(error: unknown): unknown {
    try {
      this.#context.codec.encodeJson(error);
      return error;
    } catch (cause) {
      if (!(cause instanceof InvalidInputError)) throw cause;
      const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
      return Object.assign(new Error(message), { name, stack, incomplete: cause.message });
    }
  }

  async #decode(result: ChunkContent | undefined): Promise<unknown> {
    if (result === undefined) return undefined;
    const { codec, repository } = this.#context;
    return codec.decode(result, await repository.loadChunks(result));
  }
}

/** The function ended but its outcome could not be stored: this is not a failure of the step itself. */
class UnrecordedOutcome extends Error {
  constructor(cause: unknown) {
    super('The outcome of a step could not be stored.', { cause });
  }
}

function isUnrecorded(error: unknown): error is UnrecordedOutcome {
  return error instanceof UnrecordedOutcome;
}

function logMark(ordinal: number): string | null {
  return ordinal === 0 ? null : `${ordinal}`;
}

function describeMismatch(
  name: string,
  recorded: RecordedEffect | undefined,
  inputDigest: Digest | undefined,
): ReplayMismatchError {
  const details = { name, recordedInput: recorded?.inputDigest ?? null, input: inputDigest ?? null };
  if (recorded === undefined)
    return new ReplayMismatchError(`Step "${name}" has no recording left to replay.`, { details });
  if (recorded.status === 'started')
    return new ReplayMismatchError(`Step "${name}" was still running when the recording ends.`, { details });
  return new ReplayMismatchError(
    `Step "${name}" (effect ${recorded.ordinal}) got another input than the recording: ${short(inputDigest)} instead of ${short(recorded.inputDigest)}.`,
    { details },
  );
}

function short(digest: Digest | undefined): string {
  return digest === undefined ? 'none' : digest.slice(0, 12);
}

/** Reads and checks the effects of a branch, in order. */
export async function readEffects(
  { storage }: ManagerContext,
  filter: { sessionId: SessionId; branch: string; fromOrdinal: number },
): Promise<RecordedEffect[]> {
  return (await storage.readEffects(filter)).map(parseEffect);
}
