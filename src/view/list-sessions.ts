import { placeOf, sessionOf } from '../adapter/langgraph/record/thread-session.ts';
import { withoutUndefined } from '../core/defined.ts';
import { hasErrorCode, isForgotten, isLost } from '../core/errors.ts';
import { addTo } from '../core/group-by.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import { type CheckpointId, formatCheckpointId, type SessionId } from '../core/record/id.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { readEffects } from '../manager/effect/recordings.ts';
import type { Engine } from '../manager/engine/engine.ts';
import { eachSession, findCurrentBranch } from '../manager/engine/records.ts';
import { isAnswerBranch } from '../manager/revision/ref-name.ts';
import { checkRef } from '../storage/ref.ts';
import type { Shape, session } from './shapes.ts';

type Heads = ReadonlyMap<string, CheckpointId>;

/** A session, its heads by branch, and the newest of them. One without a checkpoint stands where its last step would. */
export type RankedSession = {
  readonly id: SessionId;
  readonly heads: Heads;
  readonly newestId: string;
  readonly subgraphs: readonly SessionId[] | undefined;
  readonly steps?: RecordedSteps;
};

/** The steps of a session that saved no checkpoint yet. */
export type RecordedSteps = { readonly branch: string; readonly count: number; readonly lastMs: number };

/** All sessions, the last saved to first; those of subgraphs are with their threads unless `isWhole`. */
export async function rankSessions({ engine }: CheckpointManager, isWhole: boolean): Promise<RankedSession[]> {
  const sessions = new Map<SessionId, Map<string, CheckpointId>>();
  for (const ref of await engine.storage.readRefs({ kind: 'branch' })) {
    const { sessionId, name, target } = checkRef(ref);
    const heads = sessions.get(sessionId) ?? new Map<string, CheckpointId>();
    sessions.set(sessionId, heads.set(name, target as CheckpointId));
  }
  const unsaved = await rankUnsaved(engine, sessions);
  const subgraphs = isWhole ? new Map<SessionId, SessionId[]>() : takeSubgraphs(sessions);
  return [...sessions]
    .map(([id, heads]): RankedSession => {
      const newestId = [...heads.values()].toSorted().at(-1) ?? ''; // ids sort by time
      return { id, heads, newestId, subgraphs: subgraphs.get(id) };
    })
    .concat(unsaved)
    .sort((a, b) => (a.newestId < b.newestId ? 1 : -1));
}

/** The heads of all branches, session by session: the last saved to first, the current branch first. */
export async function* eachHead(manager: CheckpointManager) {
  for (const { id: sessionId, heads } of await rankSessions(manager, true)) {
    const current = await manager.currentBranch(sessionId);
    for (const [branch, id] of orderBranches(heads, current)) yield { sessionId, branch, id };
  }
}

/** The current branch, then the others, the last saved first. */
export function orderBranches(heads: Heads, current: string): [branch: string, head: CheckpointId][] {
  const sorted = [...heads].sort(([, a], [, b]) => (a < b ? 1 : -1));
  return sorted.sort(([a], [b]) => Number(b === current) - Number(a === current));
}

/** Sessions that recorded steps and saved no checkpoint yet. */
async function rankUnsaved(engine: Engine, saved: ReadonlyMap<SessionId, Heads>): Promise<RankedSession[]> {
  const found: RankedSession[] = [];
  for await (const id of eachSession(engine.storage, { onDamaged: () => undefined })) {
    const steps = saved.has(id) ? undefined : await findSteps(engine, id).catch(ignoreDamage);
    if (steps === undefined) continue;
    const newestId = formatCheckpointId(steps.lastMs, -1n) + id; // after what was saved in the same millisecond
    found.push({ id, heads: new Map(), newestId, subgraphs: undefined, steps });
  }
  return found;
}

/** What a session recorded on its current branch; undefined if that is nothing. */
export async function findSteps(engine: Engine, sessionId: SessionId): Promise<RecordedSteps | undefined> {
  const refs = await engine.repository.readRefs({ sessionId });
  const branch = findCurrentBranch(refs);
  const count = Number(refs.find(({ kind, name }) => kind === 'log' && name === branch)?.target ?? 0);
  if (count === 0) return undefined;
  const [last] = await readEffects(engine, { sessionId, branch, fromOrdinal: count - 1 });
  return { branch, count, lastMs: last?.startedAtMs ?? 0 };
}

function ignoreDamage(error: unknown): undefined {
  if (!isDamage(error)) throw error; // verify tells of damage
}

/** A session as it is listed. `steps` of one that saved no checkpoint yet: so many were recorded, the last at `savedAt`. */
export type DescribedSession = Shape<typeof session>;

/** A session with the head of the branch that it names, and when any branch was last saved to; undefined if that head is damaged, `forgotten` if its key was removed. */
export async function describeSession(
  manager: CheckpointManager,
  session: RankedSession,
): Promise<DescribedSession | 'forgotten' | undefined> {
  const { id, heads, newestId, subgraphs, steps } = session;
  if (steps !== undefined) {
    const savedAt = new Date(steps.lastMs).toISOString();
    return { id, currentBranch: steps.branch, branches: [], sequence: 0, steps: steps.count, savedAt };
  }
  try {
    const currentBranch = await manager.currentBranch(id);
    const headId = heads.get(currentBranch) ?? (newestId as CheckpointId);
    const head = await manager.open(headId);
    const { sequence, agentId, userId } = head;
    const newest = newestId === headId ? head : await manager.get(newestId).catch(ignoreDamage);
    const branches = [...heads.keys()].filter((name) => !isAnswerBranch(name));
    const place = { id, currentBranch, branches, headId, sequence };
    return {
      ...place,
      savedAt: (newest ?? head).timestamp.toISOString(),
      ...withoutUndefined({ status: statusOn(currentBranch, head), agentId, userId }),
      ...(subgraphs !== undefined && { subgraphs }),
    };
  } catch (error) {
    if (isForgotten(error)) return 'forgotten';
    if (isDamage(error)) return undefined;
    throw error;
  }
}

/** How a branch is at its head. A fork has the status of its origin: nobody runs it before it has a step of its own. */
function statusOn(branch: string, head: Checkpoint): string | undefined {
  const isFork = head.branch !== branch || head.trigger === 'edited';
  return isFork && (head.status === 'running' || head.status === 'initializing') ? undefined : head.status;
}

function isDamage(error: unknown): boolean {
  return isLost(error) || hasErrorCode(error, 'NOT_FOUND');
}

/** Takes the sessions of subgraphs out of the list; returns them by their threads. */
function takeSubgraphs(sessions: Map<SessionId, unknown>): Map<SessionId, SessionId[]> {
  const found = new Map<SessionId, SessionId[]>();
  for (const sessionId of sessions.keys()) {
    const thread = threadOf(sessionId);
    if (thread === sessionId || !sessions.has(thread)) continue;
    sessions.delete(sessionId);
    addTo(found, thread, sessionId);
  }
  return found;
}

/** The thread that a session of a subgraph belongs to; of any other session itself. */
export function threadOf(sessionId: SessionId): SessionId {
  const place = placeOf(sessionId);
  if (place !== undefined) return sessionOf({ ...place, namespace: '' });
  const [, thread] = /^(lg\/[^/]+)\//.exec(sessionId) ?? []; // a long name stands there by its digest
  return (thread ?? sessionId) as SessionId;
}
