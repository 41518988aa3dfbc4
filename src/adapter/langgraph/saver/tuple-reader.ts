import {
  type CheckpointPendingWrite,
  type CheckpointTuple,
  type Checkpoint as GraphCheckpointData,
  maxChannelVersion,
  TASKS,
} from '@langchain/langgraph-checkpoint';
import type { NearState } from '../../../core/codec/near-state.ts';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { metadataOf } from '../record/graph-header.ts';
import type { StoredGraphCheckpoint } from '../record/graph-rows.ts';
import type { GraphState } from '../record/graph-state.ts';
import { PageDecoder } from '../record/page-decoder.ts';
import { configOf } from '../record/thread-session.ts';
import type { Sources, StoredWrites } from '../record/write-record.ts';
import { inTaskOrder, type PendingWrites, resolveWrites } from './pending-writes.ts';
import type { SessionLane } from './session-lanes.ts';

/** Everything that belongs to one checkpoint, read but not decoded. */
type Material = {
  readonly stored: StoredGraphCheckpoint;
  readonly writes: readonly StoredWrites[];
  /** The writes to the parent, where old checkpoints need them. */
  readonly parentWrites: readonly StoredWrites[];
};

/** Makes what LangGraph calls a tuple: a checkpoint with its state, metadata, parent and pending writes. */
export class TupleReader {
  readonly #engine: Engine;
  readonly #writes: PendingWrites;
  readonly #firstVersion: () => number | string;

  constructor(engine: Engine, writes: PendingWrites, firstVersion: () => number | string) {
    this.#engine = engine;
    this.#writes = writes;
    this.#firstVersion = firstVersion;
  }

  /** The tuple of one checkpoint. A run that goes on from it encodes only what it changes, because its shadow is kept. */
  async readTip(lane: SessionLane, stored: StoredGraphCheckpoint): Promise<CheckpointTuple> {
    const material = await this.#gather(stored);
    const { checkpoint, graph, root } = stored;
    // One that was redacted meanwhile has the same id and another content.
    if (lane.findTip(graph.id)?.checkpoint.digest === checkpoint.digest) {
      const page = await this.#load([material], lane.nearState(this.#engine.codec));
      return this.#createTuple(material, page);
    }
    const page = await this.#load([material], undefined);
    const { state, encoded } = this.#engine.codec.decodeForEditing(root, page.sources.find);
    lane.keepTip(graph.id, { checkpoint, encoded });
    return this.#createTuple(material, page, state as GraphState);
  }

  /** The tuples of some checkpoints, in their order. All chunks are read at once; each tuple is decoded when it is looked at. */
  async read(stored: readonly StoredGraphCheckpoint[], known: NearState | undefined): Promise<CheckpointTuple[]> {
    const material = await Promise.all(stored.map((one) => this.#gather(one)));
    const page = await this.#load(material, known);
    return material.map((one) => this.#createTuple(one, page));
  }

  async #gather(stored: StoredGraphCheckpoint): Promise<Material> {
    const { checkpoint, graph } = stored;
    const { sessionId } = checkpoint;
    const parentId = graph.oldFormat === undefined ? undefined : graph.parentId;
    const [writes, parentWrites] = await Promise.all([
      this.#writes.read(sessionId, graph.id),
      parentId === undefined ? [] : this.#writes.read(sessionId, parentId),
    ]);
    return { stored, writes, parentWrites };
  }

  async #load(material: readonly Material[], known: NearState | undefined): Promise<PageDecoder> {
    const refs = material.flatMap(({ stored, writes, parentWrites }) => [
      ...stored.root.refs,
      ...[...writes, ...parentWrites].flatMap(({ result }) => result?.refs ?? []),
    ]);
    const absent = new Set(refs.filter((digest) => known?.has(digest) !== true));
    const find = await this.#engine.repository.loadChunks({ text: '', refs: [...absent] });
    const isLearning = known === undefined && material.length > 1;
    return new PageDecoder(this.#engine.codec, { find, known }, { isLearning });
  }

  #createTuple(material: Material, page: PageDecoder, state?: GraphState): CheckpointTuple {
    const { codec } = this.#engine;
    const { checkpoint, graph, root } = material.stored;
    const decodeState = once(() => {
      const decoded = state ?? (page.decode(root) as GraphState);
      return this.#complete(decoded, material, page.sources);
    });
    const decodePending = once((): CheckpointPendingWrite[] =>
      resolveWrites(codec, material.writes, page.sources).map(({ write }) => write),
    );
    return {
      config: configOf(graph.place, graph.id),
      get checkpoint() {
        return decodeState();
      },
      metadata: metadataOf(checkpoint, codec),
      get pendingWrites() {
        return decodePending();
      },
      ...(graph.parentId !== undefined && { parentConfig: configOf(graph.place, graph.parentId) }),
    };
  }

  /** Adds the id, and to checkpoints of old formats the sends that are pending at their parent. */
  #complete(state: GraphState, material: Material, sources: Sources): GraphCheckpointData {
    const { graph } = material.stored;
    const { v, ts, ...rest } = state;
    const checkpoint = { v, id: graph.id, ts, ...rest } as GraphCheckpointData;
    if (graph.oldFormat === undefined || graph.parentId === undefined) return checkpoint;
    checkpoint.channel_values[TASKS] = sendsIn(this.#engine.codec, material.parentWrites, sources);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : this.#firstVersion();
    return checkpoint;
  }
}

function sendsIn(codec: StateCodec, writes: readonly StoredWrites[], sources: Sources): unknown[] {
  const sends = resolveWrites(codec, writes, sources).filter(({ write: [, channel] }) => channel === TASKS);
  return inTaskOrder(sends).map(({ write: [, , value] }) => value);
}

function once<Value>(compute: () => Value): () => Value {
  let known: { readonly value: Value } | undefined;
  return () => {
    known ??= { value: compute() };
    return known.value;
  };
}
