import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  MemorySaver,
  type SerializerProtocol,
} from '@langchain/langgraph-checkpoint';
import { CorruptError, messageOf } from '../../../core/errors.ts';
import { isRecord } from '../../../core/options.ts';
import type { PartFault, SourceContent, SourceWrites } from './thread-source.ts';

/** What LangGraph's serializer stores in place of a value that it cannot write, such as one with a BigInt in it. */
const PLACEHOLDER = '[unable to serialize, circular reference is too complex to analyze]';

const LOST = 'its saver could not serialize the value and stored a placeholder instead';

/** A value as it lies in a column or row. */
type StoredValue = { readonly type: string | null; readonly value: Uint8Array | string | null };

/** A write as it lies there. */
export type StoredWrite = StoredValue & { readonly taskId: string; readonly channel: string };

/** LangGraph's own serializer, which its package does not export. */
export function defaultSerializer(): SerializerProtocol {
  return new MemorySaver().serde;
}

/** Decodes one value, or throws a CorruptError that names what it is of. */
export async function decodeStored(
  serde: SerializerProtocol,
  { type, value }: StoredValue,
  what: string,
): Promise<unknown> {
  try {
    return await serde.loadsTyped(type ?? 'json', value instanceof Uint8Array ? withoutBuffer(value) : (value ?? ''));
  } catch (cause) {
    throw new CorruptError(`The ${what} cannot be decoded: ${messageOf(cause)}`, { cause });
  }
}

/** The same bytes, but not as the subclass that drivers give: what was saved was none. */
function withoutBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Decodes writes; what cannot be, is left out and named. */
export async function decodeWrites(serde: SerializerProtocol, stored: readonly StoredWrite[]): Promise<SourceWrites> {
  const writes: CheckpointPendingWrite[] = [];
  const faults: PartFault[] = [];
  for (const one of stored) {
    try {
      writes.push([one.taskId, one.channel, await decodeStored(serde, one, 'write')]);
    } catch (error) {
      if (!(error instanceof CorruptError)) throw error;
      faults.push({ channel: one.channel, reason: error.message });
    }
  }
  const sorted = sortWrites(writes);
  return { writes: sorted.writes, faults: [...faults, ...sorted.faults] };
}

/** Leaves out writes whose values are lost, and names them. */
export function sortWrites(writes: readonly CheckpointPendingWrite[]): SourceWrites {
  const lost = writes.filter(([, , value]) => value === PLACEHOLDER);
  return {
    writes: writes.filter(([, , value]) => value !== PLACEHOLDER),
    faults: lost.map(([taskId, channel]) => ({ channel, reason: `a write of task ${taskId} was left out: ${LOST}` })),
  };
}

/** Accepts what was decoded as a checkpoint, without values that are lost; throws a CorruptError for anything else. */
export function parseContent(
  { checkpoint, metadata }: { readonly checkpoint: unknown; readonly metadata?: unknown },
  { writes, faults }: SourceWrites,
): SourceContent {
  if (checkpoint === PLACEHOLDER) throw new CorruptError(`The checkpoint is lost: ${LOST}.`);
  if (!isCheckpoint(checkpoint)) throw new CorruptError('What is stored there is no checkpoint.');
  if (!isRecord(metadata)) throw new CorruptError('The metadata of the checkpoint is lost.');
  const entries = Object.entries(checkpoint.channel_values);
  const lost = entries.filter(([, value]) => value === PLACEHOLDER);
  const kept = entries.filter(([, value]) => value !== PLACEHOLDER);
  const reason = `the value was left out: ${LOST}`;
  return {
    checkpoint: lost.length === 0 ? checkpoint : { ...checkpoint, channel_values: Object.fromEntries(kept) },
    metadata: metadata as CheckpointMetadata,
    writes,
    faults: [...lost.map(([channel]) => ({ channel, reason })), ...faults],
  };
}

function isCheckpoint(value: unknown): value is Checkpoint {
  return (
    isRecord(value) &&
    typeof value.id === 'string' &&
    isRecord(value.channel_values) &&
    isRecord(value.channel_versions) &&
    isRecord(value.versions_seen)
  );
}
