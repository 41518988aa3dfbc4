import type { RunnableConfig } from '@langchain/core/runnables';
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
} from '@langchain/langgraph-checkpoint';
import { hasErrorCode, InvalidInputError } from '../../../core/errors.ts';
import { oneOf } from '../../../core/options.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import type { Writer } from '../../../manager/engine/writer.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { openAdapterEngine, toOptions } from '../../adapter-storage.ts';
import { type InPlace, langGraphClasses, type SavestateSaverOptions } from '../codec/saver-options.ts';
import { metadataOf } from '../record/graph-header.ts';
import { GraphRows, type StoredGraphCheckpoint } from '../record/graph-rows.ts';
import {
  configOf,
  findCheckpointId,
  findPlace,
  parsePlace,
  parseThreadId,
  sessionsOfThreads,
} from '../record/thread-session.ts';
import { captureWrites } from '../record/write-record.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';
import { readDeltaHistory } from './delta-history.ts';
import { listGraphCheckpoints } from './graph-listing.ts';
import { PendingWrites } from './pending-writes.ts';
import { capturePut } from './put-capture.ts';
import { type SessionLane, SessionLanes } from './session-lanes.ts';
import { copyThread, deleteThread } from './thread-copy.ts';
import { TupleReader } from './tuple-reader.ts';

/** One checkpoint of a history, without its state. */
export type CheckpointSummary = Pick<CheckpointTuple, 'config' | 'parentConfig' | 'metadata'> & {
  /** Our id and branch, for the CheckpointManager and the command line. */
  readonly id: string;
  readonly branch: string;
  readonly savedAt: Date;
};

const OPTIONS = { onConflict: oneOf('branch', 'error'), inPlace: oneOf('recent', 'all') };

/** Tuples of a history that are read together: enough to share the reading, few enough to hold. */
const TUPLES_AT_ONCE = 32;

/** Saves the threads of LangGraph graphs as sessions. Pass it as `checkpointer` when compiling a graph. */
export class SavestateSaver extends BaseCheckpointSaver {
  readonly #engine: Engine;
  readonly #lanes: SessionLanes;
  readonly #rows: GraphRows;
  readonly #writes: PendingWrites;
  readonly #writer: CheckpointWriter;
  readonly #reader: TupleReader;
  readonly #inPlace: InPlace;

  constructor(storageOrOptions: ChunkStorage | SavestateSaverOptions);
  constructor(...given: [ChunkStorage | SavestateSaverOptions]) {
    super();
    const options: SavestateSaverOptions = toOptions(given, OPTIONS, 'SavestateSaver');
    this.#engine = openAdapterEngine(options, langGraphClasses);
    this.#inPlace = options.inPlace ?? 'recent';
    this.#lanes = new SessionLanes(this.#engine);
    this.#rows = new GraphRows(this.#engine);
    this.#writes = new PendingWrites(this.#engine, this.#rows);
    this.#writer = new CheckpointWriter(this.#engine, {
      rows: this.#rows,
      writes: this.#writes,
      onConflict: options.onConflict ?? 'branch',
    });
    this.#reader = new TupleReader(this.#engine, this.#writes, () => this.getNextVersion(undefined));
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const place = findPlace(config);
    if (place === undefined) return undefined;
    const lane = this.#lanes.open(place);
    await lane.settled();
    const stored = await this.#find(lane, findCheckpointId(config));
    if (stored === undefined) return undefined;
    try {
      return await this.#reader.readTip(lane, stored);
    } catch (error) {
      // What is missing may have been deleted while it was read.
      if (!hasErrorCode(error, 'CORRUPT') || (await this.#rows.open(stored.checkpoint.id)) !== undefined) throw error;
      return this.getTuple(config);
    }
  }

  #find({ sessionId }: SessionLane, graphId: string | undefined): Promise<StoredGraphCheckpoint | undefined> {
    return graphId === undefined ? this.#rows.latest(sessionId) : this.#rows.find(sessionId, graphId);
  }

  /** Newest first. A tuple's state and writes are decoded when they are first looked at. */
  override async *list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    await this.#settled();
    let batch: StoredGraphCheckpoint[] = [];
    for await (const { checkpoint } of listGraphCheckpoints(this.#engine, config, options)) {
      const stored = await this.#rows.open(checkpoint.id);
      if (stored !== undefined) batch.push(stored);
      if (batch.length < TUPLES_AT_ONCE) continue;
      yield* await this.#readBatch(batch);
      batch = [];
    }
    if (batch.length > 0) yield* await this.#readBatch(batch);
  }

  /** Resolves when all that was begun is stored, and retention has done what that left to it. */
  async #settled(): Promise<void> {
    await this.#lanes.settled();
    await this.#engine.settled();
  }

  #readBatch(batch: readonly StoredGraphCheckpoint[]): Promise<CheckpointTuple[]> {
    const [first] = batch;
    const known = first === undefined ? undefined : this.#lanes.open(first.graph.place).nearState(this.#engine.codec);
    return this.#reader.read(batch, known);
  }

  /** Like `list`, but reads no states and no writes: what a history page needs. */
  async *listMetadata(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointSummary> {
    await this.#settled();
    for await (const { checkpoint, graph } of listGraphCheckpoints(this.#engine, config, options)) {
      yield {
        config: configOf(graph.place, graph.id),
        ...(graph.parentId !== undefined && { parentConfig: configOf(graph.place, graph.parentId) }),
        metadata: metadataOf(checkpoint, this.#engine.codec),
        id: checkpoint.id,
        branch: checkpoint.branch,
        savedAt: checkpoint.timestamp,
      };
    }
  }

  /** The threads that graphs saved, each with the time of its latest checkpoint. */
  async *listThreads(): AsyncGenerator<{ readonly threadId: string; readonly savedAt: Date }> {
    await this.#settled();
    for (const sessionId of await sessionsOfThreads(this.#engine.storage)) {
      const latest = await this.#rows.latest(sessionId);
      if (latest !== undefined) yield { threadId: latest.graph.place.threadId, savedAt: latest.checkpoint.timestamp };
    }
  }

  /** Saves a checkpoint. The state is read before this returns. */
  override async put(
    ...[config, checkpoint, metadata, newVersions]: [RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]
  ): Promise<RunnableConfig> {
    const place = parsePlace(config);
    const lane = this.#lanes.open(place);
    const { id } = checkpoint;
    const save = async (writer: Writer): Promise<void> => {
      const call = { checkpoint, metadata, newVersions };
      const captured = capturePut(this.#engine, lane, { config, call, inPlace: this.#inPlace });
      const canWait = metadata.source === 'loop'; // only those of a running loop have time
      await lane.inOrder(() => this.#writer.put({ lane, writer }, captured), { canWait });
    };
    await this.#engine.write(save, { sessionId: lane.sessionId });
    return configOf(place, id);
  }

  /** Saves what a task wrote, also to a checkpoint that is not saved yet. */
  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const place = parsePlace(config);
    const graphId = findCheckpointId(config);
    if (graphId === undefined) {
      throw new InvalidInputError('The config has no checkpoint_id, so there is nothing these writes belong to.', {
        details: { field: 'configurable.checkpoint_id' },
      });
    }
    if (writes.length === 0) return;
    const lane = this.#lanes.open(place);
    const call = captureWrites(this.#engine.codec, writes, { taskId, instances: lane.written });
    await this.#writes.put(lane, graphId, call);
  }

  /** Reads the whole history of delta channels in a few bulk reads. */
  override async getDeltaChannelHistory({
    config,
    channels,
  }: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const place = findPlace(config);
    const empty = Object.fromEntries(channels.map((channel) => [channel, { writes: [] }]));
    if (place === undefined || channels.length === 0) return empty;
    const lane = this.#lanes.open(place);
    await lane.settled();
    const stored = await this.#find(lane, findCheckpointId(config));
    return stored === undefined ? empty : readDeltaHistory(this.#engine, stored, channels);
  }

  /** Deletes a thread with all its namespaces and writes, and gives the space back. */
  override async deleteThread(threadId: string): Promise<void> {
    await deleteThread(this.#engine, this.#lanes, parseThreadId(threadId));
  }

  /** Copies all checkpoints and writes of a thread to a new one, which shares its states. */
  async copyThread(sourceThreadId: string, targetThreadId: string): Promise<void> {
    const [from, to] = [parseThreadId(sourceThreadId), parseThreadId(targetThreadId)];
    await copyThread(this.#engine, this.#lanes, { from, to });
  }
}
