import { encodedKeys } from '../../../core/codec/state-codec.ts';
import { ConflictError, hasErrorCode, isOutcomeUnknown, type SavestateError } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { type CheckpointId, idAfter, type SessionId } from '../../../core/record/id.ts';
import { buildCheckpoint } from '../../../manager/engine/commit-builder.ts';
import { DEFAULT_BRANCH, makeCurrent } from '../../../manager/engine/current-branch.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { type DescribedHeader, describeCheckpoint } from '../../../manager/engine/save-options.ts';
import type { RefChange } from '../../../storage/contract.ts';
import { deriveCheckpointId } from '../record/checkpoint-id.ts';
import { type GraphHeader, SENDS_INSIDE_SINCE, withGraphHeader } from '../record/graph-header.ts';
import { aliasOf, type GraphRows, type StoredGraphCheckpoint } from '../record/graph-rows.ts';
import { findDeltaChannels } from './delta-channels.ts';
import type { PendingWrites } from './pending-writes.ts';
import { type CapturedPut, type PlacedPut, placePut } from './put-capture.ts';
import type { SessionLane } from './session-lane.ts';
import { type TakenWrites, WriteBucket } from './write-bucket.ts';

/** What a writer needs besides the storage. */
export type WriterParts = {
  readonly rows: GraphRows;
  readonly writes: PendingWrites;
  readonly onConflict: 'branch' | 'error';
};

/** Where a checkpoint goes. */
type Target = {
  readonly branch: string;
  /** What the branch must be at; `null` if it must be new. */
  readonly expect: CheckpointId | null;
  /** What can be reached from these need not be stored again. */
  readonly requires: readonly CheckpointId[];
  /** Absent: as LangGraph's id says. */
  readonly id?: CheckpointId | undefined;
  readonly graph: GraphLinks;
};

/** What the place of a checkpoint says in its header. */
type GraphLinks = Pick<GraphHeader, 'parentId' | 'generation' | 'replaces' | 'deltas'>;

/** Stores what LangGraph puts: each checkpoint on its parent, in the parent's branch if it is the first there. */
export class CheckpointWriter {
  readonly #context: Engine;
  readonly #parts: WriterParts;

  constructor(context: Engine, parts: WriterParts) {
    this.#context = context;
    this.#parts = parts;
  }

  async put(lane: SessionLane, captured: CapturedPut): Promise<Checkpoint> {
    const graphId = captured.call.checkpoint.id;
    try {
      const put = await placePut(this.#context, captured, { rows: this.#parts.rows, lane });
      const isAgain = put.parentId === graphId && put.parent !== undefined;
      const checkpoint = isAgain ? await this.#storeAgain(lane, put) : await this.#store(lane, put);
      lane.keepTip(graphId, { checkpoint, encoded: put.encoded });
      if (lane.findBucket(graphId) === undefined) lane.keepBucket(graphId, new WriteBucket());
      return checkpoint;
    } catch (error) {
      lane.clear(); // its shadows may speak of chunks that were not stored
      throw error;
    }
  }

  /** On its parent's branch if it is the first child, else on a new one. */
  async #store(lane: SessionLane, put: PlacedPut): Promise<Checkpoint> {
    const { parent, parentId } = put;
    const { generation, isOwn } = await this.#takeWrites(lane, parentId);
    const base = { expect: parent?.id ?? null, requires: requiredBy(parent) };
    try {
      const branch = parent?.branch ?? DEFAULT_BRANCH;
      return await this.#commit(lane, put, { ...base, branch, graph: { parentId, generation } });
    } catch (error) {
      if (isTaken(error)) return this.#storeAgain(lane, put);
      if (!isMoved(error)) throw error;
      this.#checkFork(lane, put, error);
      const graph = { parentId, generation: isOwn ? generation : undefined };
      return this.#commit(lane, put, { ...base, branch: this.#newBranch(parent), expect: null, graph });
    }
  }

  /** The writes that made this checkpoint. */
  async #takeWrites(lane: SessionLane, parentId: string | undefined): Promise<TakenWrites> {
    if (parentId === undefined) return { generation: undefined, isOwn: false };
    return (await this.#parts.writes.openBucket(lane, parentId)).take();
  }

  #newBranch(parent: Checkpoint | undefined): string {
    return `fork-${(parent?.sequence ?? 0) + 1}-${this.#context.ports.nextId().slice(-6)}`;
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
  async #storeAgain(lane: SessionLane, put: PlacedPut): Promise<Checkpoint> {
    const { parent, parentId, call, encoded } = put;
    const requires = requiredBy(parent);
    const stored = await this.#parts.rows.find(lane.sessionId, call.checkpoint.id);
    if (stored === undefined) {
      // It was deleted, and its id is not free again.
      const id = this.#context.ports.nextId(parent?.id);
      return this.#commit(lane, put, {
        branch: this.#newBranch(parent),
        expect: null,
        requires,
        id,
        graph: { parentId },
      });
    }
    const { checkpoint } = stored;
    if (checkpoint.stateDigest === encoded.root.digest) return checkpoint;
    const isHead = await this.#parts.rows.isHead(checkpoint);
    return this.#commit(
      lane,
      { ...put, parent: checkpoint },
      {
        branch: isHead ? checkpoint.branch : this.#newBranch(checkpoint),
        expect: isHead ? checkpoint.id : null,
        requires: [...requires, checkpoint.id],
        id: idAfter(checkpoint.id),
        graph: againHeader(stored),
      },
    );
  }

  async #commit(lane: SessionLane, put: PlacedPut, target: Target): Promise<Checkpoint> {
    const { sessionId } = lane;
    const { branch, expect, requires } = target;
    const id = target.id ?? deriveAfter(put.parent, sessionId, put.call.checkpoint.id);
    const { uncounted, isPartial: needsParent } = findDeltaChannels(put, this.#context.codec);
    const place = { sessionId, branch, parent: put.parent, needsParent, effects: {}, ...(id !== undefined && { id }) };
    const described = this.#describe(lane, put, { ...target.graph, deltas: uncounted });
    const content = { described, encoded: put.encoded };
    const { checkpoint, record } = buildCheckpoint(this.#context, place, content);
    const refs: RefChange[] = [{ kind: 'branch', name: branch, expect, target: checkpoint.id }];
    if (expect === null) refs.push(makeCurrent(branch));
    if (id === undefined || target.id !== undefined)
      refs.push({ kind: 'mark', name: aliasOf(put.call.checkpoint.id), target: checkpoint.id });
    try {
      await lane.commit({ sessionId, checkpoint: record, chunks: put.chunks, refs, requires });
    } catch (error) {
      if (!isOutcomeUnknown(error) || !(await this.#isStored(checkpoint))) throw error;
    }
    return checkpoint;
  }

  /** Whether a commit that got no answer was stored after all. */
  async #isStored({ id, digest }: Checkpoint): Promise<boolean> {
    return (await this.#context.storage.readCheckpoint(id))?.digest === digest;
  }

  #describe(lane: SessionLane, { call, runId, encoded }: PlacedPut, graph: GraphLinks): DescribedHeader {
    const { id, v } = call.checkpoint;
    const channels = encodedKeys(encoded, ['channel_values']);
    const oldFormat = v < SENDS_INSIDE_SINCE ? v : undefined;
    const header: GraphHeader = { place: lane.place, id, channels, runId, oldFormat, ...graph };
    const metadata = withGraphHeader(call.metadata, header);
    return describeCheckpoint({ type: 'auto', trigger: call.metadata.source, metadata }, this.#context.codec);
  }
}

/** Our id for LangGraph's. A child must sort after its parent, also if the clock that named it was slow: then it gets another one. */
function deriveAfter(parent: Checkpoint | undefined, sessionId: SessionId, graphId: string): CheckpointId | undefined {
  const derived = deriveCheckpointId(sessionId, graphId);
  return parent === undefined || derived === undefined || derived > parent.id ? derived : undefined;
}

function requiredBy(parent: Checkpoint | undefined): CheckpointId[] {
  return parent === undefined ? [] : [parent.id];
}

/** What stays of the first record of a checkpoint that is put again. */
function againHeader({ checkpoint, graph }: StoredGraphCheckpoint): Target['graph'] {
  return { parentId: graph.parentId, generation: graph.generation, replaces: checkpoint.id };
}

/** Whether a commit was refused because the branch is not where it was expected. */
function isMoved(error: unknown): error is SavestateError {
  return hasErrorCode(error, 'CONFLICT') && (error as SavestateError).details.kind === 'branch';
}

/** Whether it was refused because the id is in use. */
function isTaken(error: unknown): boolean {
  return hasErrorCode(error, 'CONFLICT') && (error as SavestateError).details.id !== undefined;
}
