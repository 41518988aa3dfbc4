import { encodedKeys, encodedPart, type StateCodec } from '../../../core/codec/state-codec.ts';
import { ConflictError, type SavestateError } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { type CheckpointId, idAfter, type SessionId } from '../../../core/record/id.ts';
import { Shadow } from '../../../core/tree/shadow.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { DEFAULT_BRANCH, makeCurrent } from '../../../manager/engine/records.ts';
import { describeCheckpoint } from '../../../manager/engine/save-options.ts';
import type { WritePlace, Writer } from '../../../manager/engine/writer.ts';
import type { RefChange } from '../../../storage/contract.ts';
import { isRefused } from '../../../storage/refusal.ts';
import { DELTA_SNAPSHOT_TAG } from '../codec/graph-codecs.ts';
import { deriveCheckpointId } from '../record/checkpoint-id.ts';
import { findGraphHeader, type GraphHeader, SENDS_INSIDE_SINCE, withGraphHeader } from '../record/graph-header.ts';
import { aliasOf, type GraphRows } from '../record/graph-rows.ts';
import type { PendingWrites } from './pending-writes.ts';
import { type CapturedPut, type PlacedPut, placePut } from './put-capture.ts';
import type { SessionLane } from './session-lanes.ts';
import { type TakenWrites, WriteBucket } from './write-bucket.ts';

/** What a writer needs besides the storage. */
type WriterParts = {
  readonly rows: GraphRows;
  readonly writes: PendingWrites;
  readonly onConflict: 'branch' | 'error';
};

/** Where a checkpoint goes. */
type Target = Pick<WritePlace, 'branch' | 'expect' | 'requires'> & {
  /** Absent: as LangGraph's id says. */
  readonly id?: CheckpointId;
  readonly graph: GraphLinks;
};

/** A lane, and the writer of the put that is under way there. */
type Writing = { readonly lane: SessionLane; readonly writer: Writer };

/** What the place of a checkpoint says in its header. */
type GraphLinks = Pick<GraphHeader, 'parentId' | 'generation' | 'replaces' | 'deltas'>;

/** Stores what LangGraph puts: each checkpoint on its parent, in the parent's branch if it is the first there. */
export class CheckpointWriter {
  readonly #engine: Engine;
  readonly #parts: WriterParts;

  constructor(engine: Engine, parts: WriterParts) {
    this.#engine = engine;
    this.#parts = parts;
  }

  async put(writing: Writing, captured: CapturedPut): Promise<void> {
    const { lane } = writing;
    const graphId = captured.call.checkpoint.id;
    try {
      const put = await placePut(this.#engine, captured, { rows: this.#parts.rows, lane });
      const isAgain = put.parentId === graphId && put.parent !== undefined;
      const checkpoint = isAgain ? await this.#storeAgain(writing, put) : await this.#store(writing, put);
      lane.keepTip(graphId, { checkpoint, encoded: put.encoded });
      if (lane.findBucket(graphId) === undefined) lane.keepBucket(graphId, new WriteBucket());
    } catch (error) {
      lane.clear(); // its shadows may speak of chunks that were not stored
      throw error;
    }
  }

  /** On its parent's branch if it is the first child, else on a new one. */
  async #store(writing: Writing, put: PlacedPut): Promise<Checkpoint> {
    const { parent, parentId } = put;
    const { generation, isOwn } = await this.#takeWrites(writing.lane, parentId);
    try {
      const branch = parent?.branch ?? DEFAULT_BRANCH;
      return await this.#write(writing, put, { branch, expect: parent?.id ?? null, graph: { parentId, generation } });
    } catch (error) {
      if (isRefused(error, 'taken')) return this.#storeAgain(writing, put);
      if (!isRefused(error, 'moved')) throw error;
      this.#checkFork(writing.lane, put, error);
      const graph = { parentId, generation: isOwn ? generation : undefined };
      return this.#write(writing, put, { branch: this.#newBranch(parent), expect: null, graph });
    }
  }

  /** The writes that made this checkpoint. */
  async #takeWrites(lane: SessionLane, parentId: string | undefined): Promise<TakenWrites> {
    if (parentId === undefined) return { generation: undefined, isOwn: false };
    return (await this.#parts.writes.openBucket(lane, parentId)).take();
  }

  #newBranch(parent: Checkpoint | undefined): string {
    return `fork-${(parent?.sequence ?? 0) + 1}-${this.#engine.ports.nextId().slice(-6)}`;
  }

  /** Lets a fork pass that was meant; what is left is a race that was lost. */
  #checkFork(lane: SessionLane, { call, parent, parentId, isTimeTravel }: PlacedPut, cause: SavestateError): void {
    const { source } = call.metadata;
    if (this.#parts.onConflict === 'branch' || isTimeTravel || source === 'update' || source === 'fork') return;
    const { threadId, namespace } = lane.place;
    const found =
      parent === undefined
        ? `Thread "${threadId}" was begun by another run meanwhile`
        : `Another run went on from checkpoint ${parentId} of thread "${threadId}" meanwhile`;
    throw new ConflictError(
      `${found}, so checkpoint ${call.checkpoint.id} was not saved. Run the graph again from the latest state, or use onConflict: 'branch'.`,
      { details: { ...cause.details, threadId, namespace, checkpointId: call.checkpoint.id, parentId }, cause },
    );
  }

  /**
   * A checkpoint of this id was stored before. LangGraph puts one again when a run ends where it began, as its own parent even; then
   * the new record stands next to the first and counts from now on.
   */
  async #storeAgain(writing: Writing, put: PlacedPut): Promise<Checkpoint> {
    const { parent, parentId, call, encoded } = put;
    const stored = await this.#parts.rows.find(writing.lane.sessionId, call.checkpoint.id);
    if (stored === undefined) {
      // It was deleted, and its id is not free again.
      const id = this.#engine.ports.nextId(parent?.id);
      return this.#write(writing, put, { branch: this.#newBranch(parent), expect: null, id, graph: { parentId } });
    }
    const { checkpoint, graph } = stored;
    if (checkpoint.stateDigest === encoded.root.digest) return checkpoint;
    const isHead = await this.#parts.rows.isHead(checkpoint);
    const again = {
      branch: isHead ? checkpoint.branch : this.#newBranch(checkpoint),
      expect: isHead ? checkpoint.id : null,
      requires: parent === undefined ? [] : [parent.id],
      id: idAfter(checkpoint.id),
      graph: { parentId: graph.parentId, generation: graph.generation, replaces: checkpoint.id },
    };
    return this.#write(writing, { ...put, parent: checkpoint }, again);
  }

  async #write({ lane, writer }: Writing, put: PlacedPut, { graph, ...target }: Target): Promise<Checkpoint> {
    const { sessionId } = lane;
    const { parent, call, encoded, chunks } = put;
    const derived = deriveAfter(parent, sessionId, call.checkpoint.id);
    const id = target.id ?? derived ?? this.#engine.ports.nextId(parent?.id);
    const { uncounted, isPartial: needsParent } = findDeltaChannels(put, this.#engine.codec);
    const refs: RefChange[] = target.expect === null ? [makeCurrent(target.branch)] : [];
    if (id !== derived) refs.push({ kind: 'mark', name: aliasOf(call.checkpoint.id), target: id });
    const described = this.#describe(lane, put, { ...graph, deltas: uncounted });
    // LangGraph hands the next state over when this is stored, and must before a node changes it.
    const place = { ...target, sessionId, parent, id, needsParent, refs, isUrgent: true };
    return writer.write(place, { described, encoded, chunks });
  }

  #describe(lane: SessionLane, { call, encoded }: PlacedPut, graph: GraphLinks) {
    const { id, v } = call.checkpoint;
    const channels = encodedKeys(encoded, ['channel_values']);
    const oldFormat = v < SENDS_INSIDE_SINCE ? v : undefined;
    const header: GraphHeader = { place: lane.place, id, channels, oldFormat, ...graph };
    const metadata = withGraphHeader(call.metadata, header);
    return describeCheckpoint({ type: 'auto', trigger: call.metadata.source, metadata }, this.#engine.codec);
  }
}

/** Our id for LangGraph's. A child must sort after its parent, also if the clock that named it was slow: then it gets another one. */
function deriveAfter(parent: Checkpoint | undefined, sessionId: SessionId, graphId: string): CheckpointId | undefined {
  const derived = deriveCheckpointId(sessionId, graphId);
  return parent === undefined || derived === undefined || derived > parent.id ? derived : undefined;
}

/** What is known of the delta channels of a checkpoint: their values are in snapshots, and else in what was written since. */
type DeltaChannels = {
  /** Those that LangGraph does not count in its metadata: they have a snapshot here, or an update did not count. */
  readonly uncounted: readonly string[] | undefined;
  /** Whether some have no value here, so that the way back to it leads beyond this checkpoint. */
  readonly isPartial: boolean;
};

const COUNTERS = 'counters_since_delta_snapshot';

/** Finds the delta channels of a checkpoint: runs count those without a snapshot; updates and copies do not, and have their parent's. */
function findDeltaChannels(put: PlacedPut, codec: StateCodec): DeltaChannels {
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
