import { ConflictError, CorruptError, hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, isCheckpointId, type SessionId } from '../../core/record/id.ts';
import type { RefChange } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { readClock } from '../lease/lease-refs.ts';

/**
 * A group checkpoint in the making. As long as it is open, the ref `group`/`cut` of the group's session holds it, and whoever removes
 * that ref by compare-and-set decides: the commit that brings the group checkpoint, or an abort. Never both.
 */
export type Cut = {
  readonly groupId: SessionId;
  /** The id that the group checkpoint will have: that it exists is all the proof needed that the cut was committed. */
  readonly id: CheckpointId;
  /** The members of other processes that are asked to take part. */
  readonly members: readonly string[];
  /** From then on anyone may abort it. */
  readonly deadlineMs: number;
};

/** Where in the group's history a cut goes. */
export type GroupPlace = { readonly branch: string; readonly parent: Checkpoint | undefined };

/** How a cut ended. */
export type CutOutcome =
  | { readonly isCommitted: true; readonly checkpointId: CheckpointId }
  | { readonly isCommitted: false; readonly reason: string };

const CUT_REF = { kind: 'group', name: 'cut' } as const;

/** The cut of a group that is open now. */
export async function readCut({ storage }: Engine, groupId: SessionId): Promise<Cut | undefined> {
  const [ref] = await storage.readRefs({ sessionId: groupId, ...CUT_REF });
  return ref === undefined ? undefined : parseCut(groupId, checkRef(ref).target);
}

/** The open cuts of all groups. */
export async function readCuts({ storage }: Engine): Promise<Cut[]> {
  const refs = await storage.readRefs(CUT_REF);
  return refs.map(checkRef).map(({ sessionId, target }) => parseCut(sessionId, target));
}

/** Opens a cut, in place of one whose deadline has passed; a ConflictError if another is open, or the group was saved meanwhile. */
export async function openCut(engine: Engine, cut: Cut, { branch, parent }: GroupPlace): Promise<void> {
  const before = await readCut(engine, cut.groupId);
  if (before !== undefined && !(await isOverdue(engine, before))) throw alreadyOpen(cut.groupId);
  const headId = parent?.id ?? null;
  try {
    await engine.storage.commit({
      sessionId: cut.groupId,
      refs: [
        { ...CUT_REF, expect: before === undefined ? null : formatCut(before), target: formatCut(cut) },
        { kind: 'branch', name: branch, expect: headId, target: headId },
      ],
    });
  } catch (error) {
    throw hasErrorCode(error, 'CONFLICT') ? alreadyOpen(cut.groupId, error) : error;
  }
}

function alreadyOpen(groupId: SessionId, cause?: unknown): ConflictError {
  return new ConflictError(`Group "${groupId}" is being saved by someone else just now. Wait for that, and retry.`, {
    details: { groupId },
    cause,
  });
}

/** The change of refs that ends a cut, and is refused if it has ended already. */
export function endingOf(cut: Cut): RefChange {
  return { ...CUT_REF, expect: formatCut(cut), target: null };
}

/** Aborts a cut, unless it has ended already. After this its group checkpoint exists, or never will. */
export async function abortCut({ storage }: Engine, cut: Cut): Promise<void> {
  try {
    await storage.commit({ sessionId: cut.groupId, refs: [endingOf(cut)] });
  } catch (error) {
    if (!hasErrorCode(error, 'CONFLICT')) throw error;
  }
}

/** Whether the time of a cut is up. */
export async function isOverdue(engine: Engine, { deadlineMs }: Cut): Promise<boolean> {
  return (await readClock(engine)) > deadlineMs;
}

function formatCut({ id, members, deadlineMs }: Cut): string {
  return JSON.stringify({ id, members, deadlineMs });
}

function parseCut(groupId: SessionId, text: string): Cut {
  const { id, members, deadlineMs } = parseObject(text);
  if (typeof id === 'string' && isCheckpointId(id) && Array.isArray(members) && typeof deadlineMs === 'number')
    return { groupId, id, members: members.map(String), deadlineMs };
  throw new CorruptError(`The open cut of group "${groupId}" is not one: ${text}. Delete the session, or run verify.`, {
    details: { groupId },
  });
}

/** Whatever an import brought in. */
function parseObject(text: string): { readonly [key: string]: unknown } {
  try {
    return { ...(JSON.parse(text) as object) };
  } catch {
    return {}; // which is no cut
  }
}
