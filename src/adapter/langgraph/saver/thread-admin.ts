import { InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import { makeCurrent } from '../../../manager/engine/current-branch.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { type LineageEntry, readSession } from '../../../manager/engine/lineage.ts';
import { deleteSession, moveHeads } from '../../../manager/retention/forgetting.ts';
import { findNeeded } from '../../../manager/retention/retention-needs.ts';
import { deleteCheckpoints } from '../../../manager/retention/retention-records.ts';
import { findGraphHeader } from '../record/graph-header.ts';
import type { GraphCheckpoint } from '../record/graph-rows.ts';
import { type Place, placeOf, sessionOf } from '../record/thread-session.ts';
import { sessionsOfThread } from '../record/thread-sessions.ts';
import { bucketOf, emptyWrites } from '../record/write-record.ts';
import { toGraph } from './delta-history.ts';
import { listGraphCheckpoints } from './graph-listing.ts';
import type { SessionLanes } from './session-lanes.ts';
import { copySession } from './thread-copy.ts';

/** What `prune` leaves of a thread: the latest checkpoint of each namespace, or nothing. */
export type PruneStrategy = 'keep_latest' | 'delete';

/** Whole threads: deleting, copying, thinning out. Each call gives the space back that it freed. */
export class ThreadAdmin {
  readonly #engine: Engine;
  readonly #lanes: SessionLanes;

  constructor(engine: Engine, lanes: SessionLanes) {
    this.#engine = engine;
    this.#lanes = lanes;
  }

  async deleteThread(threadId: string): Promise<void> {
    await this.#deleteSessions(threadId);
    await this.#engine.storage.collect();
  }

  async #deleteSessions(threadId: string): Promise<void> {
    for (const sessionId of await sessionsOfThread(this.#engine.storage, threadId))
      await this.#lanes.alone(sessionId, () => deleteSession(this.#engine, sessionId));
  }

  /** Copies every namespace of a thread; states are shared, not copied. */
  async copyThread(sourceId: string, targetId: string): Promise<void> {
    if (sourceId === targetId)
      throw new InvalidInputError(`Thread "${sourceId}" cannot be copied onto itself.`, { details: { sourceId } });
    let isFound = false;
    for (const from of await sessionsOfThread(this.#engine.storage, sourceId)) {
      const place = await this.#placeOf(from);
      if (place === undefined) continue;
      isFound = true;
      const target: Place = { threadId: targetId, namespace: place.namespace };
      await this.#lanes.alone(sessionOf(target), () => copySession(this.#engine, from, target));
    }
    if (isFound) return;
    throw new NotFoundError(`There is no thread "${sourceId}" in this storage, so nothing was copied. Check its id.`, {
      details: { threadId: sourceId },
    });
  }

  /** The place of a session; undefined if LangGraph has nothing there. */
  async #placeOf(sessionId: SessionId): Promise<Place | undefined> {
    const [row] = await this.#engine.storage.listCheckpoints({ sessionId, limit: 1 });
    if (row === undefined) return undefined;
    const { checkpoint } = await this.#engine.repository.open(row.id);
    return findGraphHeader(checkpoint)?.place ?? placeOf(sessionId);
  }

  async prune(threadIds: readonly string[], strategy: PruneStrategy): Promise<void> {
    for (const threadId of threadIds) {
      if (strategy === 'delete') await this.#deleteSessions(threadId);
      else
        for (const sessionId of await sessionsOfThread(this.#engine.storage, threadId))
          await this.#lanes.alone(sessionId, () => this.#keepLatest(sessionId));
    }
    await this.#engine.storage.collect();
  }

  /** Tags and pins were set by someone who wants these checkpoints kept; delta channels need their ancestors. */
  async #keepLatest(sessionId: SessionId): Promise<void> {
    const entries = await this.#readEntries(sessionId);
    const graphs = entries.flatMap((entry) => toGraph(entry) ?? []);
    const [latest] = graphs;
    if (latest === undefined) return;
    const kept = new Set<string>([latest.checkpoint.id]);
    for (const { kind, target } of await this.#engine.storage.readRefs({ sessionId }))
      if (kind === 'tag' || kind === 'pin') kept.add(target);
    const headers = graphs.map(({ checkpoint }) => checkpoint.header);
    for (const id of findNeeded(headers, (keptId) => kept.has(keptId)).keys()) kept.add(id);
    const doomed = graphs.filter(({ checkpoint }) => !kept.has(checkpoint.id));
    await this.#removeBranches(sessionId, { doomed: idsOf(doomed), latest });
    await this.#delete(doomed, 'only the latest checkpoint of its thread was kept');
  }

  async #readEntries(sessionId: SessionId): Promise<LineageEntry[]> {
    const entries: LineageEntry[] = [];
    for await (const entry of readSession(this.#engine.storage, sessionId)) entries.push(entry);
    return entries;
  }

  async #removeBranches(
    sessionId: SessionId,
    { doomed, latest }: { doomed: ReadonlySet<string>; latest: GraphCheckpoint },
  ): Promise<void> {
    const branches = await this.#engine.storage.readRefs({ sessionId, kind: 'branch' });
    const removed = branches.filter(({ target }) => doomed.has(target));
    if (removed.length === 0) return;
    await this.#engine.storage.commit({
      sessionId,
      refs: [
        ...removed.map(({ name, target }) => ({ kind: 'branch' as const, name, expect: target, target: null })),
        makeCurrent(latest.checkpoint.branch),
      ],
    });
  }

  /** Deletes the checkpoints of some runs, wherever they are. Branches go back to what is left of them. */
  async deleteForRuns(runIds: readonly string[]): Promise<void> {
    const runs = new Set(runIds);
    const found = new Map<SessionId, GraphCheckpoint[]>();
    for await (const one of listGraphCheckpoints(this.#engine, {}, { includeReplaced: true })) {
      const { sessionId } = one.checkpoint;
      if (one.graph.runId !== undefined && runs.has(one.graph.runId))
        found.set(sessionId, [...(found.get(sessionId) ?? []), one]);
    }
    for (const [sessionId, doomed] of found)
      await this.#lanes.alone(sessionId, async () => {
        await moveHeads(this.#engine, sessionId, {
          entries: await this.#readEntries(sessionId),
          doomed: idsOf(doomed),
        });
        await this.#delete(doomed, 'its run was deleted');
      });
    if (found.size > 0) await this.#engine.storage.collect();
  }

  async #delete(doomed: readonly GraphCheckpoint[], reason: string): Promise<void> {
    const deletions = doomed.map(({ checkpoint }) => ({ id: checkpoint.id, reason }));
    const deleted = new Set(await deleteCheckpoints(this.#engine, deletions, { force: true }));
    for (const { checkpoint, graph } of doomed) {
      const { id, sessionId } = checkpoint;
      const branch = bucketOf(sessionId, graph.id);
      // Nearly always the writes are filed under the id of the checkpoint, and went with it.
      if (!deleted.has(id) || branch === id) continue;
      const rows = await this.#engine.storage.readEffects({ sessionId, branch });
      if (rows.length > 0) await this.#engine.storage.commit({ sessionId, effects: rows.map(emptyWrites) });
    }
  }
}

function idsOf(checkpoints: readonly GraphCheckpoint[]): ReadonlySet<CheckpointId> {
  return new Set(checkpoints.map(({ checkpoint }) => checkpoint.id));
}
