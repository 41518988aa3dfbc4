import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { ChunkStorage, EffectDrop, EffectRow } from '../../storage/contract.ts';
import { tryCommit } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import { eachSession, parseRow, readPages } from '../engine/records.ts';
import { type EffectRecord, effectKey, formatEffect, parseEffect, type RecordedEffect } from './effect-record.ts';
import { droppedMark, readDropped } from './effect-refs.ts';

const BATCH = 200;
/** Effects that are removed at once, so that nobody waits long for the storage. */
const MAX_REMOVED = 1000;

/** A branch, its head, and the first of its recordings that a kept checkpoint goes on from. */
type Floor = {
  readonly branch: string;
  readonly headId: CheckpointId;
  readonly ordinal: number;
  /** Whether no checkpoint of another branch is older: who goes back to one asks what was called since, on every branch. */
  readonly isOldest: boolean;
};

/**
 * Drops the steps of a session that no kept checkpoint goes on from: those recorded before the oldest one of their branch. A mark says
 * up to where, so that nothing is taken for something else. Returns how many went.
 */
export async function dropRecordings(engine: Engine, sessionId: SessionId): Promise<number> {
  await engine.settled();
  // Read at once: a session may have thousands of branches.
  const droppedOf = readDropped(await engine.repository.readRefs({ sessionId, kind: 'mark' }));
  let count = 0;
  for (const floor of await readFloors(engine, sessionId))
    count += await dropBelow(engine, sessionId, { ...floor, from: droppedOf(floor.branch) });
  return count;
}

/** Drops such steps of all sessions. */
export async function dropAllRecordings(engine: Engine): Promise<number> {
  let count = 0;
  for await (const sessionId of eachSession(engine.storage)) count += await dropRecordings(engine, sessionId);
  return count;
}

/** Only of branches that are there: other logs belong to somebody else. */
async function readFloors({ storage, repository }: Engine, sessionId: SessionId): Promise<Floor[]> {
  const floors = new Map<string, number>();
  const needed = (branch: string, ordinal: number) =>
    floors.set(branch, Math.min(floors.get(branch) ?? Number.POSITIVE_INFINITY, ordinal));
  const branchOf = new Map<CheckpointId, string>();
  for await (const rows of readPages(storage, { sessionId, order: 'oldest' }))
    for (const { id, header } of rows.map(parseRow)) {
      const { branch, effectCount = 0, effectsInFlight = [] } = header;
      branchOf.set(id, branch);
      needed(branch, Math.min(effectCount, ...effectsInFlight));
    }
  const [oldest] = branchOf.values();
  const branches = await repository.readRefs({ sessionId, kind: 'branch' });
  // A branch whose head is still that of another one has all its recordings before it.
  for (const { name, target } of branches) if (branchOf.get(target as CheckpointId) !== name) needed(name, 0);
  return branches.map(({ name, target }) => ({
    branch: name,
    headId: target as CheckpointId,
    ordinal: floors.get(name) ?? 0,
    isOldest: name === oldest,
  }));
}

/** What is dropped of a branch now: from where on, because more was dropped before. */
type Drop = Floor & { readonly from: number };

async function dropBelow(engine: Engine, sessionId: SessionId, drop: Drop): Promise<number> {
  const { ordinal, from, isOldest } = drop;
  const isRemovable = isOldest && ordinal > 0 && engine.storage.dropEffects !== undefined;
  if (isRemovable && (await isGoneItsWay(engine, sessionId, drop))) return removeBelow(engine, sessionId, drop);
  return ordinal > from ? dropResults(engine, sessionId, drop) : 0;
}

/** Whether the last step that goes ran here. A log of steps that were taken over says which, so it stays until one has run. */
async function isGoneItsWay({ storage }: Engine, sessionId: SessionId, { branch, ordinal }: Floor): Promise<boolean> {
  const [last] = await storage.readEffects({ sessionId, branch, fromOrdinal: ordinal - 1 });
  return last?.ordinal !== ordinal - 1 || parseEffect(last).replayedFrom === undefined;
}

/**
 * Drops results. Calls of agents keep their places and keys, for who goes back to a checkpoint of another branch, and so do steps that
 * were taken over; before the first of these all goes.
 */
async function dropResults(engine: Engine, sessionId: SessionId, drop: Drop): Promise<number> {
  const { branch, ordinal, from } = drop;
  const { storage } = engine;
  // One more, which tells whether anything is left of what was dropped before.
  const read = await storage.readEffects({ sessionId, branch, fromOrdinal: Math.max(0, from - 1) });
  const rows = read.filter((row) => row.ordinal < ordinal);
  const doomed = rows.flatMap(withoutResult);
  await replaceRows(storage, sessionId, doomed);
  const isNoted = await noteDropped(engine, sessionId, drop);
  const isKept = (row: EffectRow) => row.ordinal < from || isNeededLater(parseEffect(row));
  const first = rows.find(isKept)?.ordinal ?? ordinal;
  if (isNoted && first > from) await removeEffects(storage, { sessionId, branch, before: first });
  return doomed.length;
}

function isNeededLater({ work, replayedFrom }: EffectRecord): boolean {
  return work !== undefined || replayedFrom !== undefined;
}

/** Notes up to where, then removes: whoever finds some of them missing finds the note. */
async function removeBelow(engine: Engine, sessionId: SessionId, drop: Drop): Promise<number> {
  const isNoted = drop.ordinal <= drop.from || (await noteDropped(engine, sessionId, drop));
  return isNoted ? removeEffects(engine.storage, { sessionId, branch: drop.branch, before: drop.ordinal }) : 0;
}

/** Whether it is noted; not, if the session is gone, or another process is at it. */
async function noteDropped({ storage }: Engine, sessionId: SessionId, drop: Drop): Promise<boolean> {
  const { branch, ordinal, from, headId } = drop;
  const note = { ...droppedMark(branch), expect: from === 0 ? null : String(from), target: String(ordinal) };
  return tryCommit(storage, { sessionId, requires: [headId], refs: [note] });
}

/** Removes the effects of a log before an ordinal, part by part; returns how many. */
export async function removeEffects(storage: ChunkStorage, log: Omit<EffectDrop, 'limit'>): Promise<number> {
  for (let count = 0; ; ) {
    const removed = (await storage.dropEffects?.({ ...log, limit: MAX_REMOVED })) ?? 0;
    count += removed;
    if (removed < MAX_REMOVED) return count;
  }
}

/** The row without what the step brought; none if there is nothing to drop. */
function withoutResult(row: EffectRow): EffectRow[] {
  if (row.result === undefined) return [];
  const { branch, result: _, ...record } = parseEffect(row);
  return [formatEffect({ sessionId: row.sessionId, branch }, { ...record, status: 'dropped' })];
}

async function replaceRows(storage: ChunkStorage, sessionId: SessionId, rows: readonly EffectRow[]): Promise<void> {
  for (let at = 0; at < rows.length; at += BATCH)
    await storage.commit({ sessionId, effects: rows.slice(at, at + BATCH) });
}

/**
 * Empties steps for good: their places stay, with nothing that was asked or brought, so that no step finds them and each of the same name
 * runs, under a key of its own.
 */
export async function emptySteps(
  { storage }: Engine,
  sessionId: SessionId,
  steps: readonly RecordedEffect[],
): Promise<void> {
  const emptied = steps.map(({ branch, ordinal, attempt, afterId, startedAtMs }) => {
    const idempotencyKey = effectKey(sessionId, branch, { ordinal, name: '' });
    const record = { ordinal, name: '', status: 'dropped', attempt, idempotencyKey, startedAtMs } as const;
    return formatEffect({ sessionId, branch }, { ...record, ...(afterId !== undefined && { afterId }) });
  });
  await replaceRows(storage, sessionId, emptied);
}

type RecordingPlace = { readonly branch: string; readonly ordinal: number };

const nameOf = ({ branch, ordinal }: RecordingPlace) => `${ordinal} ${branch}`;

/**
 * The steps that belong to some of a session's checkpoints, which are given in order: begun after one, first held by one, or taken over
 * from such a step.
 */
export function findStepsOf(
  steps: readonly RecordedEffect[],
  { inOrder, isOwn }: { readonly inOrder: readonly Checkpoint[]; readonly isOwn: (id: CheckpointId) => boolean },
): Set<RecordedEffect> {
  const failed = new Set(steps.filter(({ status }) => status === 'failed').map(nameOf));
  const held = placesHeldBy(inOrder, { isOwn, isOver: (place) => failed.has(nameOf(place)) });
  const isBegun = ({ afterId }: RecordedEffect) => afterId !== undefined && isOwn(afterId);
  const found = new Set(steps.filter((step) => isBegun(step) || held.has(nameOf(step))));
  const places = new Set([...found].map(nameOf));
  for (let count = -1; count < found.size; ) {
    count = found.size;
    for (const step of steps) {
      if (step.replayedFrom === undefined || !places.has(nameOf(step.replayedFrom))) continue;
      found.add(step);
      places.add(nameOf(step));
    }
  }
  return found;
}

/**
 * The places of the steps that were over when one of these checkpoints was saved, and at no earlier one of the branch. A failed one is,
 * although it may be tried again.
 */
function placesHeldBy(
  inOrder: readonly Checkpoint[],
  {
    isOwn,
    isOver,
  }: { readonly isOwn: (id: CheckpointId) => boolean; readonly isOver: (place: RecordingPlace) => boolean },
): Set<string> {
  const places = new Set<string>();
  const waiting = new Map<string, { from: number; inFlight: readonly number[] }>();
  for (const { id, branch, header } of inOrder) {
    const { from, inFlight } = waiting.get(branch) ?? { from: 0, inFlight: [] };
    const { effectCount = from, effectsInFlight = [] } = header;
    const since = Array.from({ length: Math.max(0, effectCount - from) }, (_, index) => from + index);
    const running = effectsInFlight.filter((ordinal) => !isOver({ branch, ordinal }));
    const isRunning = new Set(running);
    const held = [...inFlight, ...since].filter((ordinal) => !isRunning.has(ordinal));
    if (isOwn(id)) for (const ordinal of held) places.add(nameOf({ branch, ordinal }));
    waiting.set(branch, { from: Math.max(from, effectCount), inFlight: running });
  }
  return places;
}
