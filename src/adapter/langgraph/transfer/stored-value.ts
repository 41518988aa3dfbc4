import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  MemorySaver,
  type SerializerProtocol,
} from '@langchain/langgraph-checkpoint';
import { CorruptError, messageOf } from '../../../core/errors.ts';
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

/** Whether a value was lost when it was stored. */
function isPlaceholder(value: unknown): boolean {
  return value === PLACEHOLDER;
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
    const message = messageOf(cause);
    throw new CorruptError(`The ${what} cannot be decoded: ${message}`, { cause });
  }
}

/** The same bytes, but not as the subclass that drivers give: what was saved was none. */
function withoutBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Decodes writes; what cannot be, is left out and named. */
export async function decodeStoredWrites(
  serde: SerializerProtocol,
  stored: readonly StoredWrite[],
): Promise<SourceWrites> {
  const found: SourceWrites[] = [];
  for (const one of stored) {
    try {
      const value = await decodeStored(serde, one, 'write');
      found.push(sortWrites([[one.taskId, one.channel, value]]));
    } catch (error) {
      if (!(error instanceof CorruptError)) throw error;
      found.push({ writes: [], faults: [{ channel: one.channel, reason: error.message }] });
    }
  }
  return { writes: found.flatMap(({ writes }) => writes), faults: found.flatMap(({ faults }) => faults) };
}

/** Leaves out writes whose values are lost, and names them. */
export function sortWrites(writes: readonly CheckpointPendingWrite[]): SourceWrites {
  const lost = writes.filter(([, , value]) => isPlaceholder(value));
  return {
    writes: lost.length === 0 ? writes : writes.filter((write) => !lost.includes(write)),
    faults: lost.map(([taskId, channel]) => ({ channel, reason: `a write of task ${taskId} was left out: ${LOST}` })),
  };
}

/** Accepts what was decoded as a checkpoint, without values that are lost; throws a CorruptError for anything else. */
export function parseContent(decoded: {
  readonly checkpoint: unknown;
  readonly metadata: unknown;
  readonly writes: SourceWrites;
}): SourceContent {
  const { checkpoint, metadata, writes } = decoded;
  if (isPlaceholder(checkpoint)) throw new CorruptError(`The checkpoint is lost: ${LOST}.`);
  if (!isCheckpoint(checkpoint)) throw new CorruptError('What is stored there is no checkpoint.');
  if (!isRecord(metadata)) throw new CorruptError('The metadata of the checkpoint is lost.');
  const entries = Object.entries(checkpoint.channel_values);
  const lost = entries.filter(([, value]) => isPlaceholder(value));
  const faults: PartFault[] = lost.map(([channel]) => ({ channel, reason: `the value was left out: ${LOST}` }));
  const kept = entries.filter((entry) => !lost.includes(entry));
  return {
    checkpoint: lost.length === 0 ? checkpoint : { ...checkpoint, channel_values: Object.fromEntries(kept) },
    metadata: metadata as CheckpointMetadata,
    writes: writes.writes,
    faults: [...faults, ...writes.faults],
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

function isRecord(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
