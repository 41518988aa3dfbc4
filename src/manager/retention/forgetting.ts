import { hasErrorCode, isLost } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { CollectResult, RefChange } from '../../storage/contract.ts';
import { compareText } from '../../storage/query.ts';
import { parseEffect, type RecordedEffect } from '../effect/effect-record.ts';
import { emptySteps, findStepsOf } from '../effect/recording-drop.ts';
import type { Engine } from '../engine/engine.ts';
import { draftOf, settleReplacements } from '../engine/import-claim.ts';
import {
  findCurrentBranch,
  type LineageEntry,
  makeCurrent,
  parseRow,
  readPages,
  readSession,
} from '../engine/records.ts';
import { GROUP_TYPE } from '../engine/save-options.ts';
import { groupOfPin, unpinGroups } from '../group/group-pins.ts';
import { isAnswerBranch } from '../revision/ref-name.ts';
import { type Doomed, deleteCheckpoints } from './retention-records.ts';
import type { RetentionRunner } from './retention-runner.ts';

/** So often a session is planned anew because others changed it. */
const MAX_PLANS = 5;

/** What was deleted of a user, and what could not be. */
export type ForgottenUser = {
  /** How many checkpoints were deleted, and in which sessions. */
  readonly checkpoints: number;
  readonly sessions: readonly SessionId[];
  /** How many memories were purged, of each `Memory` that is open with this manager. */
  readonly memories: number;
  readonly left: readonly LeftInSession[];
  /** What `gc` freed afterwards; absent if no checkpoint was deleted. */
  readonly collected?: CollectResult;
  /** Sessions with checkpoints of the user that were not looked into, because their key was removed; `deleteSession` takes them away. */
  readonly unreadable?: readonly SessionId[];
};

/** What may hold a user's words in a session that others share: the states they saved after the user, and steps recorded after those. */
type LeftInSession = {
  readonly sessionId: SessionId;
  readonly checkpoints: readonly CheckpointId[];
  readonly steps: number;
};

/**
 * Deletes everything of a user: whole sessions where they are the user's alone, else the user's checkpoints and steps in them; the group
 * checkpoints that one of these is part of, for they hold messages; and what is remembered of the user. Says what is left.
 */
export async function forgetUser(engine: Engine, userId: string, isDryRun: boolean): Promise<ForgottenUser> {
  await engine.settled();
  await settleReplacements(engine);
  const sessions = new Set<SessionId>();
  for await (const rows of readPages(engine.storage, { userId })) for (const row of rows) sessions.add(row.sessionId);
  if (sessions.size === 0) await engine.repository.checkKeys(); // or an erasure that erased nothing would seem done
  const groups = await groupsOf(engine, sessions, userId); // before the pins go that tell
  const isDoomed = ({ id, userId: owner }: Checkpoint) => owner === userId || groups.has(id);
  const left: LeftInSession[] = [];
  let checkpoints = 0;
  for (const sessionId of new Set([...sessions, ...groups.values()])) {
    const plan = await clearSession(engine, () => planSession(engine, sessionId, isDoomed), isDryRun);
    checkpoints += plan.deleted;
    left.push(plan.left);
  }
  const isDone = checkpoints > 0 && !isDryRun;
  const collected = isDone && { collected: await engine.storage.collect() };
  const memories = await forgetMemories(engine, userId, isDryRun);
  const isLeft = ({ checkpoints: after, steps }: LeftInSession) => after.length + steps > 0;
  return {
    checkpoints,
    sessions: [...sessions],
    memories,
    left: left.filter(isLeft),
    ...collected,
    ...(await findUnreadable(engine, userId)),
  };
}

async function forgetMemories({ keepers }: Engine, userId: string, isDryRun: boolean): Promise<number> {
  let memories = 0;
  for (const keeper of keepers) memories += (await keeper.forgetUser?.(userId, isDryRun)) ?? 0;
  return memories;
}

/** Sessions with checkpoints of the user whose key was removed: nobody can say what else is in them. */
async function findUnreadable({ storage }: Engine, userId: string): Promise<Pick<ForgottenUser, 'unreadable'>> {
  const counts = (await storage.countForgotten?.({ userId })) ?? [];
  return counts.length === 0 ? {} : { unreadable: counts.map(({ sessionId }) => sessionId) };
}

/** The group checkpoints that a checkpoint of the user is part of, and the sessions they are in. */
async function groupsOf(
  { storage, repository }: Engine,
  sessions: ReadonlySet<SessionId>,
  userId: string,
): Promise<Map<CheckpointId, SessionId>> {
  const groups = new Map<CheckpointId, SessionId>();
  for (const sessionId of sessions)
    for (const pin of await repository.readRefs({ sessionId, kind: 'pin' })) {
      const groupId = groupOfPin(pin);
      const member = groupId && (await storage.readCheckpoint(pin.target as CheckpointId));
      if (member === undefined || parseRow(member).userId !== userId) continue;
      const group = await storage.readCheckpoint(groupId as CheckpointId);
      if (group?.isDeleted === false) groups.set(group.id, group.sessionId);
    }
  return groups;
}

/** What goes of a session, and what stays that may hold the same words. */
type SessionPlan = {
  readonly sessionId: SessionId;
  readonly entries: readonly LineageEntry[];
  readonly own: readonly Checkpoint[];
  readonly steps: readonly RecordedEffect[];
  readonly isWhole: boolean;
  readonly left: LeftInSession;
};

async function planSession(
  { storage }: Engine,
  sessionId: SessionId,
  isDoomed: (checkpoint: Checkpoint) => boolean,
): Promise<SessionPlan> {
  const entries: LineageEntry[] = [];
  for await (const entry of readSession(storage, sessionId)) entries.push(entry);
  entries.reverse(); // a parent comes before its children
  const live = entries.flatMap(({ checkpoint }) => checkpoint ?? []);
  const own = live.filter(isDoomed);
  const doomed = new Set(own.map(({ id }) => id));
  const reached = new Set(doomed);
  for (const { id, parentId } of entries) if (parentId !== undefined && reached.has(parentId)) reached.add(id);
  const after = live.flatMap(({ id }) => (reached.has(id) && !doomed.has(id) ? [id] : []));
  const isWhole = own.length === live.length;
  const recorded = isWhole ? [] : (await storage.readEffects({ sessionId })).map(parseEffect);
  const steps = findStepsOf(recorded, { inOrder: live, isOwn: (id) => doomed.has(id) });
  const isLeft = (step: RecordedEffect) =>
    !steps.has(step) && step.result !== undefined && step.afterId !== undefined && reached.has(step.afterId);
  const left = { sessionId, checkpoints: after, steps: recorded.filter(isLeft).length };
  return { sessionId, entries, own, steps: [...steps], isWhole, left };
}

/** Plans anew what others saved or pruned meanwhile. */
async function clearSession(
  engine: Engine,
  makePlan: () => Promise<SessionPlan>,
  isDryRun: boolean,
): Promise<Pick<SessionPlan, 'left'> & { readonly deleted: number }> {
  for (let attempt = 1; ; attempt++) {
    const plan = await makePlan();
    try {
      return { left: plan.left, deleted: isDryRun ? plan.own.length : await carryOut(engine, plan) };
    } catch (error) {
      if (attempt === MAX_PLANS || !hasErrorCode(error, 'CONFLICT')) throw error;
    }
  }
}

async function carryOut(engine: Engine, { sessionId, entries, own, steps, isWhole }: SessionPlan): Promise<number> {
  if (isWhole) {
    await deleteSession(engine, sessionId);
    return own.length;
  }
  const doomed = new Map(own.map(({ id }) => [id, 'the history of its user was cleared']));
  await emptySteps(engine, sessionId, steps); // first: who is interrupted finds the checkpoints that tell which
  await moveHeads(engine, sessionId, { entries, doomed });
  const deleted = await deleteCheckpoints(engine, doomed, { force: true });
  // What others saved for the same group stays theirs.
  const groups = own.filter(({ type }) => type === GROUP_TYPE);
  await unpinGroups(engine, new Set(groups.map(({ id }) => id)));
  return deleted.length;
}

/**
 * Branches whose head goes are set back to the nearest ancestor that stays. Of a current branch of which nothing stays, the one that was
 * saved to last takes the place: what others saved would seem gone otherwise.
 */
async function moveHeads(
  { storage }: Engine,
  sessionId: SessionId,
  { entries, doomed }: { entries: readonly LineageEntry[]; doomed: Doomed },
): Promise<void> {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const refs = await storage.readRefs({ sessionId });
  const current = findCurrentBranch(refs);
  const moves = refs
    .filter(({ kind }) => kind === 'branch')
    .map(({ name, target: expect }) => ({ name, expect, target: findKept(byId, doomed, expect as CheckpointId) }));
  const heir = moves
    .filter(({ name, target }) => target !== undefined && !isAnswerBranch(name))
    .toSorted((a, b) => compareText(b.target ?? '', a.target ?? ''))[0];
  for (const { name, expect, target } of moves) {
    if (target === expect) continue;
    const succession = name === current && target === undefined && heir !== undefined ? [makeCurrent(heir.name)] : [];
    const change: RefChange = { kind: 'branch', name, expect, target: target ?? null };
    const requires = target === undefined ? [] : [target]; // prune may have been quicker
    await storage.commit({ sessionId, requires, refs: [change, ...succession] });
  }
}

/** A head, or its nearest ancestor that stays. */
function findKept(
  byId: ReadonlyMap<CheckpointId, LineageEntry>,
  doomed: Doomed,
  head: CheckpointId,
): CheckpointId | undefined {
  let entry = byId.get(head);
  if (entry === undefined || !doomed.has(head)) return head; // saved since this was planned
  while (entry !== undefined && (doomed.has(entry.id) || entry.checkpoint === undefined))
    entry = entry.parentId === undefined ? undefined : byId.get(entry.parentId);
  return entry?.id;
}

/**
 * Removes a session and all that was in it; leaves no tombstone. Its groups let their members go, and with `retention` those that nothing
 * else keeps go, too. Returns whether it was there.
 */
export async function deleteSession(
  engine: Engine,
  sessionId: string,
  retention?: Pick<RetentionRunner, 'releaseGroups'>,
): Promise<boolean> {
  await engine.settled();
  const id = parseSessionId(sessionId);
  const live = await readLive(engine, id);
  if (live.length === 0) await engine.repository.checkKeys();
  const noteEnd = await engine.noteStanding(id);
  // First: if this is all that is done, the session is there; else the next opening would bring it back.
  const wasReplaced = await engine.storage.deleteSession(draftOf(id));
  const wasThere = (await engine.storage.deleteSession(id)) || wasReplaced;
  await noteEnd();
  for (const keeper of engine.keepers) keeper.forget(id);
  for (const checkpoint of live)
    await engine.events.emit('checkpoint_deleted', checkpoint.id, 'its session was deleted');
  const groups = live.filter(({ type }) => type === GROUP_TYPE).map((group) => group.id);
  if (retention === undefined) await unpinGroups(engine, new Set(groups));
  else await retention.releaseGroups(groups);
  return wasThere;
}

/** The checkpoints of a session, as far as they can be read: a damaged session must be deletable too. */
async function readLive({ storage }: Engine, sessionId: SessionId): Promise<Checkpoint[]> {
  const live: Checkpoint[] = [];
  try {
    for await (const { checkpoint } of readSession(storage, sessionId))
      if (checkpoint !== undefined) live.push(checkpoint);
  } catch (error) {
    if (!isLost(error)) throw error;
  }
  return live;
}
