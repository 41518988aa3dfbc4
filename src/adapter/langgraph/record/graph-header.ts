import type { CheckpointMetadata } from '@langchain/langgraph-checkpoint';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import { isShort, placeOf, type ThreadPlace } from './thread-session.ts';

/** What LangGraph knows of a checkpoint beside its state and metadata. */
export type GraphHeader = {
  readonly place: ThreadPlace;
  readonly id: string;
  readonly parentId?: string | undefined;
  /** The channels that have a value, so that histories can be walked without reading states. */
  readonly channels: readonly string[];
  /** Delta channels that LangGraph's own metadata does not count. */
  readonly deltas?: readonly string[] | undefined;
  /** Which generation of the parent's writes made this checkpoint; undefined if none did. */
  readonly generation?: number | undefined;
  /** LangGraph's format of the checkpoint, if it is an old one whose sends are pending at its parent. */
  readonly oldFormat?: number | undefined;
  /** The earlier record of a checkpoint that was put again with other content. */
  readonly replaces?: CheckpointId | undefined;
};

/** As it is stored, with every checkpoint: what nearly all have alike is left out. */
type StoredHeader = Omit<GraphHeader, 'place'> & { readonly place?: ThreadPlace };

/** The first format of LangGraph whose checkpoints hold their pending sends themselves. */
export const SENDS_INSIDE_SINCE = 4;

/** Our key among LangGraph's metadata. */
const KEY = 'langgraph';

const USUAL_GENERATION = 0;
const NO_GENERATION = -1;

/** The metadata of a checkpoint to save. */
export function withGraphHeader(metadata: CheckpointMetadata, header: GraphHeader): { [key: string]: unknown } {
  if (!Object.hasOwn(metadata, KEY)) return { ...metadata, [KEY]: toStored(header) };
  throw new InvalidInputError(`The metadata has the key "${KEY}", which the saver needs itself. Choose another name.`, {
    details: { field: `metadata.${KEY}` },
  });
}

function toStored({ place, generation = NO_GENERATION, ...header }: GraphHeader): { [key: string]: unknown } {
  const stored: { [key: string]: unknown } = {};
  for (const [key, value] of Object.entries(header)) if (value !== undefined) stored[key] = value;
  if (header.parentId !== undefined && generation !== USUAL_GENERATION) stored.generation = generation;
  if (!isShort(place)) stored.place = place;
  return stored;
}

/** What was recorded of a checkpoint; undefined if it was not saved by LangGraph. */
export function findGraphHeader({ header }: { readonly header: CheckpointHeader }): GraphHeader | undefined {
  const stored = header.metadata?.[KEY] as StoredHeader | undefined;
  const place = placeOf(header.sessionId) ?? stored?.place;
  if (stored === undefined || place === undefined) return undefined;
  const { generation = USUAL_GENERATION } = stored;
  return { ...stored, place, generation: generation === NO_GENERATION ? undefined : generation };
}

/** LangGraph's own metadata of a checkpoint, as new data. */
export function metadataOf({ header }: Checkpoint, codec: StateCodec): CheckpointMetadata {
  const { [KEY]: _, ...metadata } = codec.decodeJson(header.metadata ?? {}) as { [key: string]: unknown };
  return metadata as CheckpointMetadata;
}
