import { CorruptError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
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

/** Reads a stored effect; throws a CorruptError if it does not match its digest. */
export function parseEffect({ sessionId, branch, ordinal, body, result, digest }: EffectRow): RecordedEffect {
  if (digestEffect({ sessionId, branch }, body, result) === digest) {
    const record = parseRecord(body);
    if (record?.ordinal === ordinal) return { ...record, branch, result };
  }
  throw new CorruptError(`Effect ${ordinal} of branch "${branch}" in session "${sessionId}" is damaged. Run verify.`, {
    details: { sessionId, branch, ordinal },
  });
}

const STATUSES: ReadonlySet<unknown> = new Set(['started', 'done', 'failed', 'dropped']);

/** Undefined if this is no record of an effect. */
function parseRecord(body: string): EffectRecord | undefined {
  try {
    const record = JSON.parse(body) as EffectRecord;
    const { ordinal, name, status, attempt, idempotencyKey, startedAtMs } = record;
    const areTexts = typeof name === 'string' && typeof idempotencyKey === 'string';
    const areNumbers = [ordinal, attempt].every((count) => Number.isSafeInteger(count) && count >= 0);
    return areTexts && areNumbers && Number.isFinite(startedAtMs) && STATUSES.has(status) ? record : undefined;
  } catch {
    return undefined;
  }
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
