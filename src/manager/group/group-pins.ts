import { type CheckpointId, type SessionId, timeOfId } from '../../core/record/id.ts';
import type { Ref } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { abortCut, deleteReports, isOverdue, readCuts } from './cut.ts';
import { forEachMember, type SavedMember } from './group-state.ts';

const PIN_NAME = /^group:(chk_\w{22}):/;

/** With the member's checkpoint in it, because two members may share a session. */
function formatPin(groupId: CheckpointId, id: CheckpointId): string {
  return `group:${groupId}:${id}`;
}

/** The group checkpoint that a pin was made for; undefined if a person made it. */
export function groupOfPin({ name }: Pick<Ref, 'name'>): CheckpointId | undefined {
  return PIN_NAME.exec(name)?.[1] as CheckpointId | undefined;
}

/** Protects the checkpoints of a group's members from retention. Made while the cut is open, so that none is ever missing. */
export async function pinMembers(engine: Engine, groupId: CheckpointId, members: Members): Promise<void> {
  await forEachMember('The checkpoint of a member cannot be kept.', members, ({ checkpoint: { id, sessionId } }) => {
    const refs = [{ kind: 'pin' as const, name: formatPin(groupId, id), target: id }];
    return engine.storage.commit({ sessionId, refs, requires: [id] });
  });
}

/** Takes the pins of a cut back that was aborted. */
export async function unpinMembers(engine: Engine, groupId: CheckpointId, members: Members): Promise<void> {
  await forEachMember('The pin of a member is left over.', members, ({ checkpoint: { id, sessionId } }) =>
    removePin(engine, { sessionId, name: formatPin(groupId, id) }),
  );
}

type Members = readonly SavedMember[];

/** Removes the pins of group checkpoints that are gone; returns them. */
export async function unpinGroups(engine: Engine, groups: ReadonlySet<CheckpointId>): Promise<readonly Ref[]> {
  if (groups.size === 0) return [];
  const pins = await engine.repository.readRefs({ kind: 'pin' });
  const stale = pins.filter((pin) => groups.has(groupOfPin(pin) as CheckpointId));
  for (const pin of stale) await removePin(engine, pin);
  return stale;
}

async function removePin({ storage }: Engine, { sessionId, name }: Pick<Ref, 'sessionId' | 'name'>): Promise<void> {
  await storage.commit({ sessionId, refs: [{ kind: 'pin', name, target: null }] });
}

/** What pins are looked at for, and which checkpoints are known to be there. */
type PinCase = {
  readonly sessionId?: SessionId | undefined;
  readonly dryRun: boolean;
  readonly live: ReadonlySet<CheckpointId>;
};

/** Which pins protect nothing any more, and since when groups are being saved. */
type PinReview = { readonly stale: ReadonlySet<string>; readonly cutsSinceMs: number };

/**
 * Finds, and unless `dryRun` removes, the pins that protect nothing any more: of group checkpoints that were deleted, and of cuts
 * that were aborted when their process died. Cuts whose deadline has passed are aborted first, unless this is about one session only.
 */
export async function releaseStalePins(engine: Engine, { sessionId, dryRun, live }: PinCase): Promise<PinReview> {
  const pins = await engine.repository.readRefs({ ...(sessionId !== undefined && { sessionId }), kind: 'pin' });
  // Read after the pins: a cut is open before its pins are made, so a pin seen above without one belongs to a cut that has ended.
  const open = await readOpenCuts(engine, { isAlone: sessionId !== undefined, dryRun });
  const gone = new Set<CheckpointId | undefined>();
  for (const groupId of new Set(pins.map(groupOfPin)))
    if (groupId !== undefined && !live.has(groupId) && !open.has(groupId) && !(await isLive(engine, groupId)))
      gone.add(groupId);
  const stale = pins.filter((pin) => gone.has(groupOfPin(pin)));
  if (!dryRun) for (const pin of stale) await removePin(engine, pin);
  const cutsSinceMs = Math.min(...[...open].map((id) => timeOfId(id) - CUT_MARGIN_MS));
  return { stale: new Set(stale.map(({ name }) => name)), cutsSinceMs };
}

/** Members save before their cut is open, and their clocks may be behind. */
const CUT_MARGIN_MS = 60_000;

/** The cuts that may still be committed; aborts those whose deadline has passed, unless this is about one session only. */
async function readOpenCuts(
  engine: Engine,
  { isAlone, dryRun }: { readonly isAlone: boolean; readonly dryRun: boolean },
): Promise<Set<CheckpointId>> {
  const open = new Set<CheckpointId>();
  for (const cut of await readCuts(engine)) {
    if (isAlone || !(await isOverdue(engine, cut))) open.add(cut.id);
    else if (!dryRun) {
      await abortCut(engine, cut);
      await deleteReports(engine, cut);
    }
  }
  return open;
}

async function isLive({ storage }: Engine, id: CheckpointId): Promise<boolean> {
  return (await storage.readCheckpoint(id))?.isDeleted === false;
}
