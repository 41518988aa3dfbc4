import type { RunnableConfig } from '@langchain/core/runnables';
import type { CheckpointMetadata } from '@langchain/langgraph-checkpoint';
import { copyPlainJson } from '../../../core/codec/plain-json.ts';
import type { CapturedState, EncodedState, StateCodec } from '../../../core/codec/state-codec.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { Chunk } from '../../../core/tree/chunk.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { loadState } from '../../../manager/engine/loading.ts';
import type { InPlace } from '../codec/saver-options.ts';
import type { GraphRows } from '../record/graph-rows.ts';
import { childState, encodedState, type PutCall, rootState, wholeState } from '../record/graph-state.ts';
import { findCheckpointId } from '../record/thread-session.ts';
import type { SessionLane } from './session-lanes.ts';

/** A call of `put` as it was when it was made. */
export type CapturedPut = {
  readonly call: Omit<PutCall, 'checkpoint'> & { readonly checkpoint: Pick<PutCall['checkpoint'], 'id' | 'v'> };
  readonly parentId: string | undefined;
  /** The run was told to begin at a certain checkpoint, so a branch there is what its user wants. */
  readonly isTimeTravel: boolean;
  /** Set if the parent was remembered: then the state was captured against it. */
  readonly parent: Checkpoint | undefined;
  readonly state: CapturedState;
};

/**
 * A put looks into the last messages of a thread and, of a longer one, at as many of the others in turn, so that it costs the same at any
 * length. That a message was replaced, added or removed is seen at once, everywhere.
 */
const LOOK = { recent: 64, inTurn: 256 };

/** A state that is ready to be stored on its parent; undefined if that is not stored. */
export type PlacedPut = CapturedPut & { readonly encoded: EncodedState; readonly chunks: readonly Chunk[] };

/**
 * Reads the live state before anything else happens: the graph goes on changing it. Costs what changed since the parent, if that
 * is remembered.
 */
export function capturePut(
  { codec }: Engine,
  lane: SessionLane,
  { config, call, inPlace }: { readonly config: RunnableConfig; readonly call: PutCall; readonly inPlace: InPlace },
): CapturedPut {
  const parentId = findCheckpointId(config);
  const { metadata, newVersions } = call;
  const { id, v } = call.checkpoint;
  const about = {
    call: { checkpoint: { id, v }, metadata: copyMetadata(metadata, codec), newVersions: { ...newVersions } },
    parentId,
    isTimeTravel: isTimeTravel(config, lane, parentId),
  };
  if (parentId === undefined) return { ...about, parent: undefined, state: codec.capture(rootState(call)) };
  const tip = lane.takeTip(parentId);
  if (tip === undefined) return { ...about, parent: undefined, state: codec.capture(wholeState(call)) };
  const state = childState(wholeState(call), newVersions, tip.encoded);
  const look = inPlace === 'all' ? undefined : LOOK;
  return {
    ...about,
    parent: tip.checkpoint,
    state: codec.capture(state, tip.encoded, { written: lane.written, look }),
  };
}

function copyMetadata(metadata: CheckpointMetadata, codec: StateCodec): CheckpointMetadata {
  const copy = copyPlainJson(metadata) ?? codec.decodeJson(codec.encodeJson(metadata));
  return copy as unknown as CheckpointMetadata;
}

/** LangChain repeats among the metadata what the user gave as `configurable`. Subgraphs go back along with the graph around them. */
function isTimeTravel({ metadata }: RunnableConfig, { place }: SessionLane, parentId: string | undefined): boolean {
  const askedId = metadata?.checkpoint_id;
  return askedId !== undefined && (askedId === parentId || place.namespace !== '');
}

/** Composes the state; where the parent was not remembered, reads it and builds on it. */
export async function placePut(
  engine: Engine,
  captured: CapturedPut,
  { rows, lane }: { readonly rows: GraphRows; readonly lane: SessionLane },
): Promise<PlacedPut> {
  const { call, parentId, parent } = captured;
  const encoded = engine.codec.compose(captured.state);
  const whole = { ...captured, encoded, chunks: encoded.chunks };
  if (parentId === undefined || parent !== undefined) return whole;
  const found = await rows.find(lane.sessionId, parentId);
  if (found === undefined) return whole;
  const { encoded: before } = await loadState(engine, found);
  if (before === undefined) return { ...whole, parent: found.checkpoint };
  const rebased = engine.codec.encode(childState(encodedState(encoded), call.newVersions, before), before);
  const chunks = [...encoded.chunks, ...rebased.chunks];
  return { ...captured, parent: found.checkpoint, encoded: rebased, chunks };
}
