import { ConflictError, hasErrorCode, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Engine } from '../engine/engine.ts';
import { type LineageEntry, readPath } from '../engine/records.ts';
import { parseEffect, type RecordedEffect } from './effect-record.ts';
import { countMissing, droppedMark, effectsMissing, takeLast } from './effect-refs.ts';
import type { EffectMode } from './step.ts';
import type { OpenedLog } from './step-recordings.ts';

/** Where a session's steps find their recordings, as its options say. */
type ReplayOptions = {
  readonly mode?: EffectMode | undefined;
  readonly replayFrom?: 'head' | 'start' | undefined;
  readonly replayBranch?: string | undefined;
};

type LogPlace = { readonly sessionId: SessionId; readonly branch: string; readonly head: Checkpoint | undefined };

/** What was read of a log, and its branch if some of that was dropped. */
type Part = { readonly effects: readonly RecordedEffect[]; readonly dropped?: string | undefined };

/** Reads the recordings a session may use, in one go, and where its own log goes on. */
export async function openRecordings(engine: Engine, place: LogPlace, options: ReplayOptions): Promise<OpenedLog> {
  try {
    return await readRecordings(engine, place, options);
  } catch (error) {
    if (!hasErrorCode(error, 'CORRUPT') || !(await isGone(engine, place))) throw error;
    const { sessionId } = place;
    throw new ConflictError(`Session "${sessionId}" was deleted while it was opened. Open it again.`, {
      details: { sessionId },
      cause: error,
    });
  }
}

/** Whether others deleted the session since its head was read: what is missing then is no damage. */
async function isGone({ storage }: Engine, { sessionId, head }: LogPlace): Promise<boolean> {
  if (head !== undefined) return (await storage.readCheckpoint(head.id)) === undefined;
  return (await storage.readRefs({ sessionId })).length === 0;
}

async function readRecordings(engine: Engine, place: LogPlace, options: ReplayOptions): Promise<OpenedLog> {
  const nextOrdinal = await readCount(engine, place);
  const own = await readAfter(engine, place, nextOrdinal);
  const others = await readOthers(engine, place, options);
  const isFromStart = options.replayFrom === 'start';
  const before = isFromStart ? await readBefore(engine, place) : { effects: [] };
  const isOwn = ({ branch }: RecordedEffect): boolean => branch === place.branch;
  const recordings = [
    ...before.effects.filter((effect) => !isOwn(effect)),
    ...[...before.effects.filter(isOwn), ...own.effects].toSorted((a, b) => a.ordinal - b.ordinal),
    ...others.effects,
  ];
  const dropped = own.dropped ?? others.dropped ?? before.dropped;
  return { recordings: uniteAttempts(recordings, options.mode), nextOrdinal, isFromStart, dropped };
}

/**
 * A call that was recorded in several places, because it was tried again after a save or taken over, counts once, where it first was: with
 * its result, or else its last attempt. A frozen replay repeats its failures, too.
 */
function uniteAttempts(recordings: readonly RecordedEffect[], mode: EffectMode | undefined): RecordedEffect[] {
  const calls = new Map<unknown, RecordedEffect>();
  for (const recorded of recordings) {
    const { work, status, idempotencyKey } = recorded;
    const isApart = work !== undefined || (mode === 'frozen' && status === 'failed'); // a work knows its own calls
    const call = isApart ? recorded : idempotencyKey;
    const before = calls.get(call);
    if (before === undefined || rankOf(before) <= rankOf(recorded)) calls.set(call, recorded);
  }
  return [...calls.values()];
}

function rankOf({ status, attempt }: RecordedEffect): number {
  return status === 'done' ? Number.POSITIVE_INFINITY : attempt;
}

/**
 * What other branches recorded from where this one left them on: the one that is asked for, or in a replay mode each that it came from.
 * What was taken over is not there again, and beyond a branch on which something ran there is nothing: it went its own way.
 */
async function readOthers(engine: Engine, place: LogPlace, options: ReplayOptions): Promise<Part> {
  const { mode = 'live', replayBranch: asked } = options;
  const { sessionId, branch: own } = place;
  const found: RecordedEffect[] = [];
  if (asked === undefined ? mode === 'live' : asked === own) return { effects: found };
  const replayed = new Set<string>();
  let last = own;
  for await (const { branch, effects, dropped } of readLeft(engine, place, asked)) {
    const log = await readLog(engine, { sessionId, branch: last });
    for (const { replayedFrom: from } of log.effects)
      if (from !== undefined) replayed.add(`${from.ordinal} ${from.branch}`);
    // Of a log the beginning is dropped only where something ran.
    if (log.dropped !== undefined || log.effects.some(({ replayedFrom }) => replayedFrom === undefined)) break;
    if (dropped !== undefined) return { effects: found, dropped };
    found.push(...effects.filter(({ ordinal }) => !replayed.has(`${ordinal} ${branch}`)));
    last = branch;
  }
  return { effects: found };
}

/** What each branch that a head came from recorded since it was left, the nearest first; or the one that is asked for. */
async function* readLeft(engine: Engine, place: LogPlace, asked: string | undefined) {
  const { sessionId, head } = place;
  let last = place.branch;
  for await (const left of head === undefined ? [] : readPath(engine.storage, head)) {
    const { branch } = left.checkpoint ?? left.tombstone;
    if (branch === last) continue;
    last = branch;
    if (asked === undefined || branch === asked) yield { branch, ...(await readSince(engine, sessionId, left)) };
    if (branch === asked) return;
  }
  if (asked === undefined) return;
  const count = await readCount(engine, { sessionId, branch: asked });
  if (count === 0) await checkThere(engine, sessionId, asked);
  yield { branch: asked, ...(await readAfter(engine, { ...place, branch: asked }, count)) };
}

async function checkThere({ repository }: Engine, sessionId: SessionId, branch: string): Promise<void> {
  const names = (await repository.readRefs({ sessionId, kind: 'branch' })).map(({ name }) => name);
  if (names.includes(branch)) return;
  throw new NotFoundError(
    `Session "${sessionId}" has no branch "${branch}" to replay (it has: ${names.join(', ') || 'none'}).`,
    { details: { sessionId, branch } },
  );
}

/** What the branch of a checkpoint recorded after it; of a deleted one, what began after it. */
async function readSince(
  engine: Engine,
  sessionId: SessionId,
  { id, checkpoint, tombstone }: LineageEntry,
): Promise<Part> {
  const log = { sessionId, branch: (checkpoint ?? tombstone).branch };
  const count = await readCount(engine, log);
  if (checkpoint !== undefined) return readAfter(engine, { ...log, head: checkpoint }, count);
  const { effects, dropped } = await readLog(engine, log, count);
  const since = effects.filter(({ afterId = '' }) => afterId >= id);
  // If the first that is left began before it, so did all that was dropped.
  const [first] = takeLast(effects, count);
  return first !== undefined && (first.afterId ?? '') < id ? { effects: since } : { effects: since, dropped };
}

/** What was recorded along the whole lineage up to the head, oldest first. */
async function readBefore(engine: Engine, { sessionId, head }: LogPlace): Promise<Part> {
  const heads: Checkpoint[] = [];
  for await (const { checkpoint } of head === undefined ? [] : readPath(engine.storage, head))
    if (checkpoint !== undefined && heads.at(-1)?.branch !== checkpoint.branch) heads.push(checkpoint);
  const logs = heads.toReversed().map(async ({ branch, header }): Promise<Part> => {
    const { effectCount: before = 0, effectsInFlight = [] } = header;
    const { effects, dropped } = await readLog(engine, { sessionId, branch }, before);
    const isHeld = ({ ordinal }: RecordedEffect) => ordinal < before && !effectsInFlight.includes(ordinal);
    return { effects: effects.filter(isHeld), dropped };
  });
  const parts = await Promise.all(logs);
  const dropped = parts.find((part) => part.dropped !== undefined)?.dropped;
  return { effects: parts.flatMap(({ effects }) => effects), dropped };
}

/** A whole log, of at least so many effects, as far as it was not dropped. */
async function readLog(engine: Engine, log: Omit<LogPlace, 'head'>, count?: number): Promise<Part> {
  const before = count ?? (await readCount(engine, log));
  const effects = await readEffects(engine, { ...log, fromOrdinal: 0 });
  return { effects, dropped: await findDropped(engine, { ...log, from: 0, before }, effects) };
}

/** What a branch recorded after the head, of so many. */
async function readAfter(engine: Engine, place: LogPlace, before: number): Promise<Part> {
  const { sessionId, branch } = place;
  const effects = await readUnheld(engine, place);
  const { count: from } = positionOf(place);
  return { effects, dropped: await findDropped(engine, { sessionId, branch, from, before }, effects) };
}

/** What a head says of the log of a branch. */
function positionOf({ branch, head }: LogPlace) {
  const { effectCount = 0, effectsInFlight = [] } = head?.branch === branch ? head.header : {};
  return { count: effectCount, inFlight: new Set(effectsInFlight) };
}

/** What a branch recorded after the head, what was running when the head was saved, and what had failed and was not tried again since. */
async function readUnheld(engine: Engine, place: LogPlace): Promise<RecordedEffect[]> {
  const { sessionId, branch } = place;
  const { count, inFlight } = positionOf(place);
  const effects = await readEffects(engine, { sessionId, branch, fromOrdinal: Math.min(count, ...inFlight) });
  const since = new Set(effects.filter(({ ordinal }) => ordinal >= count).map(({ idempotencyKey: key }) => key));
  const isLeft = ({ ordinal, status, idempotencyKey: key }: RecordedEffect): boolean =>
    inFlight.has(ordinal) && !(status === 'failed' && since.has(key));
  return effects.filter((effect) => effect.ordinal >= count || isLeft(effect));
}

/** What a branch recorded since its head, oldest first, with results decoded from one read; what did not end has none. */
export async function readRecorded(
  engine: Engine,
  place: LogPlace,
): Promise<(RecordedEffect & { readonly value: unknown })[]> {
  const effects = await readUnheld(engine, place);
  const refs = effects.flatMap(({ result }) => result?.refs ?? []);
  const find = await engine.repository.loadChunks({ text: '', refs });
  return effects.map((effect) => ({
    ...effect,
    value: effect.result === undefined ? undefined : engine.codec.decode(effect.result, find),
  }));
}

/**
 * A step whose recording a damaged index hides would run again: every effect must be there that was not dropped. Returns the branch if
 * some were.
 */
async function findDropped(
  { repository }: Engine,
  log: Omit<LogPlace, 'head'> & { readonly from: number; readonly before: number },
  effects: readonly RecordedEffect[],
): Promise<string | undefined> {
  const { sessionId, branch, from, before } = log;
  if (before >= from && countMissing(effects, log) === 0) return undefined;
  const dropped = Number((await repository.readRef(sessionId, 'mark', droppedMark(branch).name)) ?? 0);
  if (dropped > from && before >= from && countMissing(effects, { from: dropped, before }) === 0) return branch;
  throw effectsMissing(sessionId, branch);
}

async function readCount({ repository }: Engine, { sessionId, branch }: Omit<LogPlace, 'head'>): Promise<number> {
  return Number((await repository.readRef(sessionId, 'log', branch)) ?? 0);
}

/** Reads and checks the effects of a branch, in order. */
export async function readEffects(
  { storage }: Engine,
  filter: { sessionId: SessionId; branch: string; fromOrdinal: number },
): Promise<RecordedEffect[]> {
  return (await storage.readEffects(filter)).map(parseEffect);
}
