import { type CheckpointId, formatCheckpointId, type SessionId } from '../../../core/record/id.ts';
import { digestText } from '../../../core/tree/chunk.ts';

/** A time-ordered UUID of version 6, which is what LangGraph names checkpoints by: time, version and time, sequence, node. */
const UUID6 = /^([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-([0-9a-f]{4})-[0-9a-f]{12}$/;

/** From the start of the Gregorian calendar, where these UUIDs begin to count, to 1970. */
const GREGORIAN_OFFSET_TICKS = 122_192_928_000_000_000n;
const TICKS_PER_MS = 10_000n;
const SEQUENCE_BITS = 14n;
const SEQUENCE_MASK = (1n << SEQUENCE_BITS) - 1n;
const CHECK_BITS = 32n;
const CHECK_HEX_CHARS = 8;

/**
 * Our id for LangGraph's: found without a lookup, and in the same order, because it begins with the same time, tick and sequence.
 * What is left of it tells sessions apart, which may hold the same id. Undefined for ids of another form.
 */
export function deriveCheckpointId(sessionId: SessionId, graphId: string): CheckpointId | undefined {
  const key = JSON.stringify([sessionId, graphId]);
  const known = derived.get(key);
  if (known !== undefined) return known;
  const id = formatOrder(graphId, BigInt(`0x${digestText(key).slice(0, CHECK_HEX_CHARS)}`));
  if (derived.size >= MAX_DERIVED) derived.clear();
  if (id !== undefined) derived.set(key, id);
  return id;
}

/** A checkpoint is asked for several times, by its writes and its children, and then never again. */
const derived = new Map<string, CheckpointId>();
const MAX_DERIVED = 1000;

/** An id that sorts after ours for every smaller id of LangGraph's, and before ours for this one, in any session. */
export function cursorBefore(graphId: string): CheckpointId | undefined {
  return formatOrder(graphId, 0n);
}

/** When LangGraph made the checkpoint with this id; undefined for ids of another form. */
export function timeOfGraphId(graphId: string): Date | undefined {
  const ticks = readId(graphId)?.ticks;
  return ticks === undefined ? undefined : new Date(Number(ticks / TICKS_PER_MS));
}

function formatOrder(graphId: string, check: bigint): CheckpointId | undefined {
  const { ticks, sequence } = readId(graphId) ?? {};
  if (ticks === undefined || sequence === undefined) return undefined;
  const order = ((ticks % TICKS_PER_MS) << SEQUENCE_BITS) | (sequence & SEQUENCE_MASK);
  return formatCheckpointId(Number(ticks / TICKS_PER_MS), (order << CHECK_BITS) | check);
}

function readId(graphId: string): { readonly ticks: bigint; readonly sequence: bigint } | undefined {
  const [, high = '', middle = '', low = '', sequence = ''] = UUID6.exec(graphId) ?? [];
  if (high === '') return undefined;
  const ticks = BigInt(`0x${high}${middle}${low}`) - GREGORIAN_OFFSET_TICKS;
  return ticks < 0n ? undefined : { ticks, sequence: BigInt(`0x${sequence}`) };
}
