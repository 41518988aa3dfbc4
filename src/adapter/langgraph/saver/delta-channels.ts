import { encodedKeys, encodedPart, type StateCodec } from '../../../core/codec/state-codec.ts';
import { Shadow } from '../../../core/tree/shadow.ts';
import { DELTA_SNAPSHOT_TAG } from '../codec/graph-codecs.ts';
import { findGraphHeader } from '../record/graph-header.ts';
import type { PlacedPut } from './put-capture.ts';

/** What is known of the delta channels of a checkpoint: their values are in snapshots, and else in what was written since. */
type DeltaChannels = {
  /** Those that LangGraph does not count in its metadata: they have a snapshot here, or an update did not count. */
  readonly uncounted: readonly string[] | undefined;
  /** Whether some have no value here, so that the way back to it leads beyond this checkpoint. */
  readonly isPartial: boolean;
};

const COUNTERS = 'counters_since_delta_snapshot';

/** Finds the delta channels of a checkpoint: runs count those without a snapshot; updates and copies do not, and have their parent's. */
export function findDeltaChannels(put: PlacedPut, codec: StateCodec): DeltaChannels {
  const { source, [COUNTERS]: counters = {} } = put.call.metadata;
  const counted = Object.keys(counters);
  const known = new Set([...counted, ...snapshotsIn(put), ...(source === 'loop' ? [] : channelsOfParent(put, codec))]);
  if (known.size === 0) return { uncounted: undefined, isPartial: false };
  const values = encodedKeys(put.encoded, ['channel_values']);
  const uncounted = [...known].filter((channel) => !counted.includes(channel));
  return {
    uncounted: uncounted.length === 0 ? undefined : uncounted,
    isPartial: [...known].some((channel) => !values.includes(channel)),
  };
}

function snapshotsIn({ encoded }: PlacedPut): string[] {
  const values = encodedPart(encoded, ['channel_values'])?.part;
  if (!(values instanceof Shadow)) return [];
  return values.keys.filter((_, at) => isSnapshot(values.children[at]));
}

function isSnapshot(value: unknown): boolean {
  return value instanceof Shadow && value.kind === 'class' && value.keys[0] === DELTA_SNAPSHOT_TAG;
}

function channelsOfParent({ parent }: PlacedPut, codec: StateCodec): string[] {
  if (parent === undefined) return [];
  const counters = parent.header.metadata?.[COUNTERS];
  const counted = counters === undefined ? [] : Object.keys(codec.decodeJson(counters) as object);
  return [...counted, ...(findGraphHeader(parent)?.deltas ?? [])];
}
