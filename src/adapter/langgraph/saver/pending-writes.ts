import type { CheckpointPendingWrite } from '@langchain/langgraph-checkpoint';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { hasErrorCode, isOutcomeUnknown } from '../../../core/errors.ts';
import type { SessionId } from '../../../core/record/id.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { checkRef } from '../../../storage/ref.ts';
import type { GraphRows } from '../record/graph-rows.ts';
import {
  bucketOf,
  type CapturedWrites,
  composeWrites,
  decodeWrites,
  formatWrites,
  parseWrites,
  type Sources,
  type StoredWrites,
} from '../record/write-record.ts';
import type { SessionLane } from './session-lanes.ts';
import { WriteBucket, writeIndex } from './write-bucket.ts';

/** How often a call starts again because another process wrote to the same checkpoint at the same time, or no answer came. */
const MAX_TRIES = 10;

/** A call on its way into the storage. */
type Appending = {
  readonly graphId: string;
  readonly captured: CapturedWrites;
  /** What was known of the checkpoint's writes was wrong. */
  isAgain: boolean;
  /** Where it was to be stored when that failed. The next state may be on its way already, with this. */
  first: { readonly bucket: WriteBucket; readonly generation: number } | undefined;
};

/** Keeps the writes of tasks to checkpoints, also to those that are not stored yet, in the effect log of their session. */
export class PendingWrites {
  readonly #engine: Engine;
  readonly #rows: GraphRows;

  constructor(engine: Engine, rows: GraphRows) {
    this.#engine = engine;
    this.#rows = rows;
  }

  /** Stores a call in one commit. */
  async put(lane: SessionLane, graphId: string, captured: CapturedWrites): Promise<void> {
    const appending: Appending = { graphId, captured, isAgain: false, first: undefined };
    for (let attempt = 1; ; attempt++) {
      try {
        return await lane.inOrder((pass) => this.#append(lane, appending, pass));
      } catch (error) {
        if (!isWorthTrying(error) || attempt === MAX_TRIES) throw error;
        appending.isAgain = true;
      }
    }
  }

  /** Lets the next piece of work begin as soon as it is certain how these writes will be stored. */
  async #append(lane: SessionLane, appending: Appending, pass: (rest: Promise<unknown>) => void): Promise<void> {
    const { graphId, isAgain } = appending;
    const known = isAgain ? await this.openBucket(lane, graphId) : lane.findBucket(graphId);
    if (known !== undefined) {
      const stored = this.#store(lane, known, appending);
      pass(stored);
      return stored;
    }
    await this.#engine.repository.checkKeys();
    try {
      // Not known here means, nearly always, not written to yet.
      await this.#store(lane, lane.keepBucket(graphId, new WriteBucket()), appending);
    } catch (error) {
      if (!isWorthTrying(error)) throw error;
      if (!isOutcomeUnknown(error)) appending.first = undefined;
      await this.#store(lane, await this.openBucket(lane, graphId), appending);
    }
  }

  async #store(lane: SessionLane, bucket: WriteBucket, appending: Appending): Promise<void> {
    const { sessionId } = lane;
    const { graphId, captured, first } = appending;
    const call = composeWrites(this.#engine.codec, captured);
    const ordinal = bucket.count;
    const expected = first && { generation: first.generation, isTaken: !first.bucket.isOpen(first.generation) };
    const generation = bucket.add(call, expected);
    if (generation === undefined) return;
    appending.first ??= { bucket, generation };
    const branch = bucketOf(sessionId, graphId);
    const position = { ordinal, generation, startedAtMs: this.#engine.ports.now() };
    try {
      await this.#engine.storage.commit({
        sessionId,
        effects: [formatWrites({ sessionId, branch }, call, position)],
        chunks: call.chunks,
        refs: [
          { kind: 'log', name: branch, expect: ordinal === 0 ? null : String(ordinal), target: String(ordinal + 1) },
        ],
      });
    } catch (error) {
      lane.forgetBucket(graphId, bucket);
      throw error;
    }
  }

  /** What is known of the writes to a checkpoint; reads them if need be. */
  async openBucket(lane: SessionLane, graphId: string): Promise<WriteBucket> {
    const known = lane.findBucket(graphId);
    if (known?.isCertain === true) return known;
    const { sessionId } = lane;
    const name = bucketOf(sessionId, graphId);
    const [log] = await this.#engine.storage.readRefs({ sessionId, kind: 'log', name });
    if (log === undefined) return lane.keepBucket(graphId, new WriteBucket([]));
    const stored = await this.read(sessionId, graphId);
    const hasChild = await this.#rows.hasChild(sessionId, graphId);
    return lane.keepBucket(graphId, new WriteBucket(stored, { count: Number(checkRef(log).target), hasChild }));
  }

  /** The stored calls to a checkpoint, in their order. */
  async read(sessionId: SessionId, graphId: string): Promise<StoredWrites[]> {
    const rows = await this.#engine.storage.readEffects({ sessionId, branch: bucketOf(sessionId, graphId) });
    return rows.flatMap((row) => parseWrites(row) ?? []);
  }
}

/** What got no answer may be stored: then it is found, and not stored again. */
function isWorthTrying(error: unknown): boolean {
  return hasErrorCode(error, 'CONFLICT') || isOutcomeUnknown(error);
}

/** One write of a task, where it counts. */
type NumberedWrite = { readonly taskId: string; readonly index: number; readonly write: CheckpointPendingWrite };

/** What counts of some calls, as new objects: of ordinary writes with the same number the first, of special ones the last. */
export function resolveWrites(
  codec: StateCodec,
  calls: readonly StoredWrites[],
  sources: Sources,
): readonly NumberedWrite[] {
  const found = new Map<string, NumberedWrite>();
  for (const call of calls) {
    const values = decodeWrites(codec, call, sources);
    for (const [at, [channel]] of call.writes.entries()) {
      const index = writeIndex(channel, at);
      const key = `${index} ${call.name}`;
      if (index >= 0 && found.has(key)) continue;
      found.set(key, { taskId: call.name, index, write: [call.name, channel, values[at]] });
    }
  }
  return [...found.values()];
}

/** The order in which LangGraph applies the writes of one step: by task, then by number. */
export function inTaskOrder(writes: readonly NumberedWrite[]): NumberedWrite[] {
  return writes.toSorted((a, b) => (a.taskId === b.taskId ? a.index - b.index : a.taskId < b.taskId ? -1 : 1));
}
