import type { StateCodec } from '../../core/codec/state-codec.ts';
import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import { type Check, isCount, isId, isText } from '../../core/record/check-header.ts';
import { type CheckpointId, isName, type SessionId } from '../../core/record/id.ts';
import { type ChunkContent, type Digest, digestText, formatChunk } from '../../core/tree/chunk.ts';
import type { EffectRow } from '../../storage/contract.ts';
import type { InputDigest } from './input-digest.ts';

/**
 * The recorded life of one effect. `started` without an end means: in flight when the process died; `dropped`: it ended, and its
 * result was given up.
 */
export type EffectRecord = {
  readonly ordinal: number;
  readonly name: string;
  readonly status: 'started' | 'done' | 'failed' | 'dropped';
  /** How often it was begun. */
  readonly attempt: number;
  /** The same for every attempt: give it to the outside system, so that it can tell a repetition from a second request. */
  readonly idempotencyKey: string;
  readonly inputDigest?: InputDigest;
  /** The named piece of work it is a call of, and which of several equal calls. */
  readonly work?: string;
  readonly nth?: number;
  /** The checkpoint that was the head when it began. */
  readonly afterId?: CheckpointId;
  readonly startedAtMs: number;
  readonly durationMs?: number;
  /** Set if the result was taken over from a recording instead of running. */
  readonly replayedFrom?: { readonly branch: string; readonly ordinal: number };
};

/** A record with the encoded result (done) or error (failed). */
export type RecordedEffect = EffectRecord & { readonly branch: string; readonly result: ChunkContent | undefined };

/** The key of an effect: the same after a crash, because place and name are. */
export function effectKey(
  sessionId: SessionId,
  branch: string,
  { ordinal, name }: { ordinal: number; name: string },
): string {
  return `eff_${digestText(JSON.stringify([sessionId, branch, ordinal, name])).slice(0, 32)}`;
}

/** Encodes what a step returned or threw; throws an InvalidInputError that names the step if that cannot be. */
export function encodeOutcome(codec: StateCodec, step: string, outcome: unknown): ReturnType<StateCodec['encode']> {
  try {
    return codec.encode(outcome);
  } catch (cause) {
    if (!(cause instanceof InvalidInputError)) throw cause;
    const message = `Step "${step}" ran, but what it returned cannot be recorded, so its call will run again. ${cause.message} $ is what the step returned.`;
    throw new InvalidInputError(message, { details: { ...cause.details, step }, cause });
  }
}

/** The same of what a step threw. An error may hold anything; what cannot be saved of it is left out, and it says so. */
export function encodeFailure(codec: StateCodec, step: string, error: unknown): ReturnType<StateCodec['encode']> {
  try {
    return codec.encode(error);
  } catch (cause) {
    if (!(cause instanceof InvalidInputError)) throw cause;
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    return encodeOutcome(codec, step, Object.assign(new Error(message), { name, stack, incomplete: cause.message }));
  }
}

/** Brings a record into the stored form. */
export function formatEffect(
  place: { sessionId: SessionId; branch: string },
  record: EffectRecord,
  result?: ChunkContent,
): EffectRow {
  const body = JSON.stringify(record);
  const row = { ...place, ordinal: record.ordinal, body, digest: digestEffect(place, body, result) };
  return result === undefined ? row : { ...row, result };
}

/** Reads a stored effect; throws a CorruptError if it does not match its digest, or is no record. */
export function parseEffect({ sessionId, branch, ordinal, body, result, digest }: EffectRow): RecordedEffect {
  const damaged = (found: string, cause?: unknown) =>
    new CorruptError(
      `Effect ${ordinal} of branch "${branch}" in session "${sessionId}" is damaged${found}. Run verify.`,
      {
        details: { sessionId, branch, ordinal },
        cause,
      },
    );
  if (digestEffect({ sessionId, branch }, body, result) !== digest) throw damaged('');
  try {
    const record = parseRecord(body);
    if (record.ordinal === ordinal) return { ...record, branch, result };
  } catch (cause) {
    throw damaged(cause instanceof CorruptError ? `: ${cause.message}` : '', cause);
  }
  throw damaged('');
}

const STATUSES: ReadonlySet<unknown> = new Set(['started', 'done', 'failed', 'dropped']);

const isPlace: Check = (value) => {
  const { branch, ordinal } = (value ?? {}) as { readonly branch?: unknown; readonly ordinal?: unknown };
  return isText(branch) && isCount(ordinal);
};
const maybe =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

const RECORD_CHECKS: { readonly [Field in keyof Required<EffectRecord>]: Check } = {
  ordinal: isCount,
  name: isText,
  status: (value) => STATUSES.has(value),
  attempt: isCount,
  idempotencyKey: isText,
  inputDigest: maybe(isText),
  work: maybe(isText),
  nth: maybe(isCount),
  afterId: maybe(isId),
  startedAtMs: Number.isFinite,
  durationMs: maybe(Number.isFinite),
  replayedFrom: maybe(isPlace),
};

function parseRecord(body: string): EffectRecord {
  const fields = (JSON.parse(body) ?? {}) as { readonly [field: string]: unknown };
  const wrong = Object.keys(RECORD_CHECKS).find(
    (field) => RECORD_CHECKS[field as keyof EffectRecord](fields[field]) !== true,
  );
  if (wrong !== undefined) throw new CorruptError(`its ${wrong} is ${JSON.stringify(fields[wrong]) ?? 'absent'}`);
  return fields as EffectRecord;
}

/** Throws a CorruptError if no step made this: the next attempt is given its key, and counts on from it. */
export function checkMade(
  { branch, ordinal, attempt, idempotencyKey, startedAtMs }: RecordedEffect,
  { maxCount, latestMs }: { readonly maxCount: number; readonly latestMs: number },
): void {
  const wrong =
    (attempt > maxCount && 'attempt') ||
    (!isName(idempotencyKey) && 'idempotencyKey') ||
    ((startedAtMs < 0 || startedAtMs > latestMs) && 'startedAtMs');
  if (wrong) throw new CorruptError(`Effect ${ordinal} of ${JSON.stringify(branch)} has a ${wrong} that no step had.`);
}

function digestEffect(
  place: { sessionId: SessionId; branch: string },
  body: string,
  result: ChunkContent | undefined,
): Digest {
  return digestText(
    `${JSON.stringify([place.sessionId, place.branch])}\n${body}\n${result === undefined ? '' : formatChunk(result)}`,
  );
}
