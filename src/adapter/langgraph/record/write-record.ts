import type { PendingWrite } from '@langchain/langgraph-checkpoint';
import type { CapturedValues } from '../../../core/codec/captured-values.ts';
import type { FindChunk } from '../../../core/codec/decode.ts';
import type { NearState } from '../../../core/codec/near-state.ts';
import type { CapturedState, StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import type { SessionId } from '../../../core/record/id.ts';
import { type Chunk, createChunk, type Digest, digestText } from '../../../core/tree/chunk.ts';
import {
  type EffectRecord,
  effectKey,
  formatEffect,
  parseEffect,
  type RecordedEffect,
} from '../../../manager/effect/effect-record.ts';
import type { EffectRow } from '../../../storage/contract.ts';
import { deriveCheckpointId } from './checkpoint-id.ts';

/**
 * One channel of a call of `putWrites`, and, if it got an array, its length: that is stored item by item, so that messages are the
 * chunks that states have too.
 */
type WriteEntry = readonly [channel: string, items?: number];

/** One call of `putWrites`, as it is stored: the effect of one task on one checkpoint. */
type WriteRecord = EffectRecord & { readonly generation: number; readonly writes: readonly WriteEntry[] };

/** A stored call with its encoded values. */
export type StoredWrites = Omit<RecordedEffect, keyof EffectRecord> & WriteRecord;

/** Where the chunks of what is decoded come from: what was read, and what need not be. */
export type Sources = { readonly find: FindChunk; readonly known?: NearState | undefined };

/** A call of `putWrites` as it was when it was made. */
export type CapturedWrites = {
  readonly taskId: string;
  readonly writes: readonly WriteEntry[];
  readonly values: CapturedState;
};

/** A call of `putWrites` that is ready to be stored. */
export type WriteCall = Omit<CapturedWrites, 'values'> & {
  readonly root: Chunk;
  readonly chunks: readonly Chunk[];
};

/** Where the writes to a checkpoint are kept in the effect log; known before the checkpoint is. */
export function bucketOf(sessionId: SessionId, graphId: string): string {
  return deriveCheckpointId(sessionId, graphId) ?? `lg:${digestText(graphId)}`;
}

/** Reads the values at once: they are the graph's, which goes on changing them. Most will be in the next state as they are. */
export function captureWrites(
  codec: StateCodec,
  writes: readonly PendingWrite[],
  { taskId, instances }: { readonly taskId: string; readonly instances: CapturedValues },
): CapturedWrites {
  const values: unknown[] = [];
  const channels: string[] = [];
  const entries = writes.map(([channel, value]): WriteEntry => {
    const items = isDense(value) ? value : [value];
    for (const item of items) {
      values.push(item);
      channels.push(channel);
    }
    return isDense(value) ? [channel, value.length] : [channel];
  });
  try {
    const captured = codec.capture(values);
    instances.add(captured);
    return { taskId, writes: entries, values: captured };
  } catch (error) {
    throw error instanceof InvalidInputError ? describeRefusal(error, { channels, taskId }) : error;
  }
}

/** Makes the chunks of a call. */
export function composeWrites(codec: StateCodec, { taskId, writes, values }: CapturedWrites): WriteCall {
  const { root, chunks } = codec.compose(values);
  return { taskId, writes, root, chunks };
}

/** Arrays with holes or properties are left whole, so that the codec refuses them. */
function isDense(value: unknown): value is readonly unknown[] {
  return (
    Array.isArray(value) &&
    Object.getPrototypeOf(value) === Array.prototype &&
    Object.keys(value).length === value.length
  );
}

function describeRefusal(
  error: InvalidInputError,
  { channels, taskId }: { channels: readonly string[]; taskId: string },
): InvalidInputError {
  const path = String(error.details.path ?? '$');
  const channel = channels[Number(/^\$\[(\d+)\]/.exec(path)?.[1])];
  if (channel === undefined) return error;
  return new InvalidInputError(`A write to channel "${channel}" cannot be saved: ${error.message}`, {
    details: { ...error.details, channel, taskId },
    cause: error,
  });
}

/** The row of a call. */
export function formatWrites(
  place: { readonly sessionId: SessionId; readonly branch: string },
  call: WriteCall,
  position: { readonly ordinal: number; readonly generation: number; readonly startedAtMs: number },
): EffectRow {
  const { taskId: name, writes, root } = call;
  const { ordinal, generation, startedAtMs } = position;
  const record: WriteRecord = {
    ordinal,
    name,
    status: 'done',
    attempt: 1,
    idempotencyKey: effectKey(place.sessionId, place.branch, { ordinal, name }),
    startedAtMs,
    generation,
    writes,
  };
  return formatEffect(place, record, { text: root.text, refs: root.refs });
}

/** Reads a row back; undefined for what was emptied. */
export function parseWrites(row: EffectRow): StoredWrites | undefined {
  const record = parseEffect(row) as StoredWrites;
  return record.result === undefined ? undefined : record;
}

/** The digest of the values of a stored call. */
export function digestOf({ result }: StoredWrites): Digest | undefined {
  return result === undefined ? undefined : createChunk(result).digest;
}

/** The values of a stored call, one for each of its channels, as new objects. */
export function decodeWrites(codec: StateCodec, { result, writes }: StoredWrites, { find, known }: Sources): unknown[] {
  if (result === undefined) return [];
  const values = codec.decode(result, find, known) as unknown[];
  let at = 0;
  return writes.map(([, items]) => {
    const from = at;
    at += items ?? 1;
    return items === undefined ? values[from] : values.slice(from, at);
  });
}

/** The same row for another checkpoint. */
export function moveWrites(
  row: EffectRow,
  place: { readonly sessionId: SessionId; readonly branch: string },
): EffectRow {
  const { branch: _, result: __, ...record } = parseEffect(row);
  return formatEffect(place, record as WriteRecord, row.result);
}
