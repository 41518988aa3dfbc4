import { CorruptError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Engine } from '../engine/engine.ts';
import { type LineageEntry, readPath } from '../engine/records.ts';
import type { EffectMode } from './effect-log.ts';
import { parseEffect, type RecordedEffect } from './effect-record.ts';

/** Where a session's steps find their recordings. */
export type ReplayOptions = {
  readonly mode: EffectMode;
  /** `head`: what was recorded after the head (the default). `start`: everything since the session began, for code that runs again from its first line. */
  readonly from: 'head' | 'start';
  /** The branch whose recordings are used besides the session's own; if absent, in a replay mode those that it came from. */
  readonly branch?: string;
};

type Place = { readonly sessionId: SessionId; readonly branch: string; readonly head: Checkpoint | undefined };

type Opened = { readonly recordings: readonly RecordedEffect[]; readonly nextOrdinal: number };

/** Reads the recordings a session may use, in one go, and where its own log goes on. */
export async function openRecordings(engine: Engine, place: Place, options: ReplayOptions): Promise<Opened> {
  const next = await nextOrdinal(engine, place);
  const own = await readAfter(engine, place, place.branch);
  checkComplete(place, own, next);
  const after = [...own, ...(await readOthers(engine, place, options))];
  const recordings = options.from === 'start' ? [...(await readBefore(engine, place)), ...after] : after;
  return { recordings, nextOrdinal: next };
}

/**
 * What other branches recorded from where this one left them on: the one that is asked for, or in a replay mode each that it came from.
 * What was taken over is not there again, and beyond a branch on which something ran there is nothing: it went its own way.
 */
async function readOthers(engine: Engine, place: Place, { mode, branch: asked }: ReplayOptions) {
  const { sessionId, branch: own } = place;
  const found: RecordedEffect[] = [];
  if (asked === undefined ? mode === 'live' : asked === own) return found;
  const replayed = new Set<string>();
  let last = own;
  for await (const { branch, effects } of readLeft(engine, place, asked)) {
    const log = await readEffects(engine, { sessionId, branch: last, fromOrdinal: 0 });
    for (const { replayedFrom: from } of log) if (from !== undefined) replayed.add(`${from.ordinal} ${from.branch}`);
    if (log.some(({ replayedFrom }) => replayedFrom === undefined)) break;
    found.push(...effects.filter(({ ordinal }) => !replayed.has(`${ordinal} ${branch}`)));
    last = branch;
  }
  return found;
}

/** What each branch that a head came from recorded since it was left, the nearest first; or the one that is asked for. */
async function* readLeft(engine: Engine, place: Place, asked: string | undefined) {
  const { sessionId, head } = place;
  let last = place.branch;
  for await (const left of head === undefined ? [] : readPath(engine.storage, head)) {
    const { branch } = left.checkpoint ?? left.tombstone;
    if (branch === last) continue;
    last = branch;
    if (asked === undefined || branch === asked) yield { branch, effects: await readSince(engine, sessionId, left) };
    if (branch === asked) return;
  }
  if (asked !== undefined) yield { branch: asked, effects: await readAfter(engine, place, asked) };
}

/** What the branch of a checkpoint recorded after it; of a deleted one, what began after it. */
async function readSince(engine: Engine, sessionId: SessionId, { id, checkpoint, tombstone }: LineageEntry) {
  if (tombstone === undefined) return readAfter(engine, { sessionId, head: checkpoint }, checkpoint.branch);
  const effects = await readEffects(engine, { sessionId, branch: tombstone.branch, fromOrdinal: 0 });
  return effects.filter(({ afterId = '' }) => afterId >= id);
}

/** What a branch recorded after the head, and what was running when the head was saved. */
async function readAfter(
  engine: Engine,
  { sessionId, head }: Omit<Place, 'branch'>,
  branch: string,
): Promise<RecordedEffect[]> {
  const isOnBranch = head?.branch === branch;
  const count = isOnBranch ? (head.header.effectCount ?? 0) : 0;
  const inFlight = new Set(isOnBranch ? head.header.effectsInFlight : []);
  const effects = await readEffects(engine, { sessionId, branch, fromOrdinal: Math.min(count, ...inFlight) });
  return effects.filter(({ ordinal }) => ordinal >= count || inFlight.has(ordinal));
}

/** What a branch recorded since its head, oldest first, with results decoded from one read; what did not end has none. */
export async function readRecorded(
  engine: Engine,
  place: Place,
): Promise<(RecordedEffect & { readonly value: unknown })[]> {
  const effects = await readAfter(engine, place, place.branch);
  const refs = effects.flatMap(({ result }) => result?.refs ?? []);
  const find = await engine.repository.loadChunks({ text: '', refs });
  return effects.map((effect) => ({
    ...effect,
    value: effect.result === undefined ? undefined : engine.codec.decode(effect.result, find),
  }));
}

/** A step whose recording a damaged index hides would run again: every effect up to the mark must be there. */
function checkComplete({ sessionId, branch, head }: Place, own: readonly RecordedEffect[], nextOrdinal: number): void {
  const count = head?.branch === branch ? (head.header.effectCount ?? 0) : 0;
  const found = own.filter(({ ordinal }) => ordinal >= count && ordinal < nextOrdinal).length;
  if (nextOrdinal >= count && found === nextOrdinal - count) return;
  throw new CorruptError(
    `Branch "${branch}" of session "${sessionId}" recorded ${nextOrdinal} effects, and not all of them are there. Run verify.`,
    { details: { sessionId, branch } },
  );
}

/** What was recorded along the whole lineage up to the head, oldest first. */
async function readBefore(engine: Engine, { sessionId, head }: Place): Promise<RecordedEffect[]> {
  if (head === undefined) return [];
  const segments: { branch: string; count: number; inFlight: readonly number[] }[] = [];
  for await (const { checkpoint } of readPath(engine.storage, head)) {
    if (checkpoint === undefined || segments.at(-1)?.branch === checkpoint.branch) continue;
    const { branch, effectCount = 0, effectsInFlight = [] } = checkpoint.header;
    segments.push({ branch, count: effectCount, inFlight: effectsInFlight });
  }
  const logs = segments.toReversed().map(async ({ branch, count, inFlight }) => {
    const effects = await readEffects(engine, { sessionId, branch, fromOrdinal: 0 });
    return effects.filter(({ ordinal }) => ordinal < count && !inFlight.includes(ordinal));
  });
  return (await Promise.all(logs)).flat();
}

async function nextOrdinal(
  { repository }: Engine,
  { sessionId, branch }: { sessionId: SessionId; branch: string },
): Promise<number> {
  return Number((await repository.readRef(sessionId, 'log', branch)) ?? 0);
}

/** Reads and checks the effects of a branch, in order. */
export async function readEffects(
  { storage }: Engine,
  filter: { sessionId: SessionId; branch: string; fromOrdinal: number },
): Promise<RecordedEffect[]> {
  return (await storage.readEffects(filter)).map(parseEffect);
}
