import type { DeltaChannelHistory } from '@langchain/langgraph-checkpoint';
import type { FindChunk } from '../../../core/codec/decode.ts';
import { NotFoundError } from '../../../core/errors.ts';
import { groupBy } from '../../../core/group-by.ts';
import type { Tombstone } from '../../../core/record/checkpoint-header.ts';
import type { SessionId } from '../../../core/record/id.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { type LineageEntry, readSession } from '../../../manager/engine/records.ts';
import type { StoredCheckpoint } from '../../../manager/engine/repository.ts';
import type { EffectRow } from '../../../storage/contract.ts';
import { findGraphHeader } from '../record/graph-header.ts';
import type { GraphCheckpoint } from '../record/graph-rows.ts';
import type { GraphState } from '../record/graph-state.ts';
import { bucketOf, parseWrites, type StoredWrites } from '../record/write-record.ts';
import { inTaskOrder, resolveWrites } from './pending-writes.ts';

/** One step of the way back: a checkpoint, and the writes that led from it to the next. */
type Step = GraphCheckpoint & { readonly calls: readonly StoredWrites[] };

/** Writes to fewer checkpoints than this are read one by one, to more with all those of the session. */
const MIN_BULK_STEPS = 16;

/**
 * What delta channels are made of: for each the value at its nearest ancestor that has one, and what was written since, oldest
 * first. Every checkpoint on the way takes the writes it came from, so forks of one parent have each their own.
 */
export async function readDeltaHistory(
  engine: Engine,
  target: GraphCheckpoint,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const path = await readWayBack(engine, target, channels);
  const steps = await addCalls(engine, { target, path, channels });
  const seedIds = new Set(channels.flatMap((channel) => seedOf(path, channel)?.checkpoint.id ?? []));
  const seeds = await Promise.all([...seedIds].map((id) => engine.repository.open(id)));
  const find = await loadAll(engine, steps, seeds);
  const states = new Map(
    seeds.map(({ checkpoint, root }) => [checkpoint.id, engine.codec.decode(root, find) as GraphState]),
  );
  return Object.fromEntries(
    channels.map((channel) => {
      const seed = seedOf(path, channel);
      const end = seed === undefined ? steps.length : path.indexOf(seed) + 1;
      const writes = steps
        .slice(0, end)
        .toReversed()
        .flatMap((step) => writesOf(engine, { step, channel, find }));
      if (seed === undefined) return [channel, { writes }];
      return [channel, { writes, seed: states.get(seed.checkpoint.id)?.channel_values[channel] }];
    }),
  );
}

function seedOf(path: readonly GraphCheckpoint[], channel: string): GraphCheckpoint | undefined {
  return path.find(({ graph }) => graph.channels.includes(channel));
}

/** The ancestors from the parent to where every channel has a value, in one pass: a parent's id is smaller than its child's. */
async function readWayBack(
  { storage }: Engine,
  { checkpoint, graph }: GraphCheckpoint,
  channels: readonly string[],
): Promise<GraphCheckpoint[]> {
  const path: GraphCheckpoint[] = [];
  const deleted: Tombstone[] = [];
  const missing = new Set(channels);
  let wanted = graph.parentId;
  if (wanted === undefined || missing.size === 0) return path;
  for await (const entry of readSession(storage, checkpoint.sessionId, checkpoint.id)) {
    const found = toGraph(entry);
    if (entry.tombstone !== undefined) deleted.push(entry.tombstone);
    if (found?.graph.id !== wanted) continue;
    path.push(found);
    for (const channel of found.graph.channels) missing.delete(channel);
    wanted = found.graph.parentId;
    if (wanted === undefined || missing.size === 0) return path;
  }
  checkNotDeleted(checkpoint.sessionId, wanted, deleted);
  return path;
}

/** What LangGraph saved; undefined for tombstones and for what others saved. */
export function toGraph({ checkpoint }: LineageEntry): GraphCheckpoint | undefined {
  const graph = checkpoint === undefined ? undefined : findGraphHeader(checkpoint);
  return checkpoint === undefined || graph === undefined ? undefined : { checkpoint, graph };
}

function checkNotDeleted(sessionId: SessionId, graphId: string, deleted: readonly Tombstone[]): void {
  const wanted = bucketOf(sessionId, graphId);
  if (!deleted.some(({ id, foldedFrom = id }) => foldedFrom <= wanted && wanted <= id)) return;
  throw new NotFoundError(
    `Checkpoint ${graphId} was deleted, and delta channels of later checkpoints need what was in it. Keep their ancestors, or use channels that are saved whole.`,
    { details: { checkpointId: graphId } },
  );
}

/** A way back, and the channels that it is walked for. */
type WayBack = { target: GraphCheckpoint; path: readonly GraphCheckpoint[]; channels: readonly string[] };

async function addCalls(engine: Engine, { target, path, channels }: WayBack): Promise<Step[]> {
  const { sessionId } = target.checkpoint;
  const buckets = path.map(({ graph }) => bucketOf(sessionId, graph.id));
  const rows = await readRows(engine, sessionId, buckets);
  return path.map((ancestor, at) => {
    const child = path[at - 1] ?? target;
    const own = (rows.get(buckets[at] ?? '') ?? []).flatMap((row) => parseWrites(row) ?? []);
    const isAsked = ({ writes }: StoredWrites) => writes.some(([channel]) => channels.includes(channel));
    return { ...ancestor, calls: own.filter((call) => call.generation === child.graph.generation && isAsked(call)) };
  });
}

async function readRows(
  { storage }: Engine,
  sessionId: SessionId,
  buckets: readonly string[],
): Promise<ReadonlyMap<string, EffectRow[]>> {
  const rows =
    buckets.length < MIN_BULK_STEPS
      ? (await Promise.all(buckets.map((branch) => storage.readEffects({ sessionId, branch })))).flat()
      : await storage.readEffects({ sessionId });
  return groupBy(rows, ({ branch }) => branch);
}

async function loadAll(
  { repository }: Engine,
  steps: readonly Step[],
  seeds: readonly StoredCheckpoint[],
): Promise<FindChunk> {
  const refs = [
    ...steps.flatMap(({ calls }) => calls.flatMap(({ result }) => result?.refs ?? [])),
    ...seeds.flatMap(({ root }) => root.refs),
  ];
  return repository.loadChunks({ text: '', refs: [...new Set(refs)] });
}

function writesOf(
  { codec }: Engine,
  { step, channel, find }: { step: Step; channel: string; find: FindChunk },
): DeltaChannelHistory['writes'] {
  return inTaskOrder(resolveWrites(codec, step.calls, { find }))
    .map(({ write }) => write)
    .filter((write) => write[1] === channel);
}
