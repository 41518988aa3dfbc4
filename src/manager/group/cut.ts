import { ConflictError, CorruptError, hasErrorCode } from '../../core/errors.ts';
import { type CheckpointId, isCheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { Ref, RefChange } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import { tryCommit } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';
import { readState } from '../engine/loading.ts';
import { parseObject } from '../engine/records.ts';
import { REPORT_TYPE } from '../engine/save-options.ts';
import { readClock } from '../lease/lease-refs.ts';
import type { Channels } from './group-state.ts';

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

/** What a member saved for a cut. */
export type MemberSave = { readonly checkpointId: CheckpointId; readonly channels: Channels };

/** What a member of another process answers to a cut. */
export type MemberReport = MemberSave | { readonly failure: string };

const CUT_REF = { kind: 'group', name: 'cut' } as const;

/** More leftovers than this are left to the next cut. */
const LEFTOVERS = 100;

/** The open cuts of a group, of which there is one at most, or of all. */
export async function readCuts({ storage }: Engine, place: { readonly sessionId?: SessionId } = {}): Promise<Cut[]> {
  const refs = await storage.readRefs({ ...place, ...CUT_REF });
  return refs.map(checkRef).map(({ sessionId, target }) => parseCut(sessionId, target));
}

/** Opens a cut, in place of one whose deadline has passed; a ConflictError if another is open, or the group was saved meanwhile. */
export async function openCut(engine: Engine, cut: Cut, head: RefChange): Promise<void> {
  const [before] = await readCuts(engine, { sessionId: cut.groupId });
  if (before !== undefined && !(await isOverdue(engine, before))) throw alreadyOpen(cut.groupId);
  const expect = before === undefined ? null : formatCut(before);
  try {
    const refs = [{ ...CUT_REF, expect, target: formatCut(cut) }, head];
    await engine.storage.commit({ sessionId: cut.groupId, refs });
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
  await tryCommit(storage, { sessionId: cut.groupId, refs: [endingOf(cut)] });
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

/** Reports lie in a session of their own, a branch for each member, so that one call removes them without a trace. */
function reportSession({ groupId, id }: Pick<Cut, 'groupId' | 'id'>): SessionId {
  return parseSessionId(`${reportPrefix(groupId)}${id}`);
}

function reportPrefix(groupId: SessionId): string {
  return `${groupId}/cut/`;
}

type Reported = { readonly member: string; readonly report: MemberReport };

/** Stores a member's report; a ConflictError if it has reported already. */
export async function storeReport(engine: Engine, cut: Cut, { member, report }: Reported): Promise<void> {
  const encoded = engine.plainCodec.encode(report);
  const place = { sessionId: reportSession(cut), branch: member, parent: undefined, expect: null };
  const content = { described: { type: REPORT_TYPE }, encoded, chunks: encoded.chunks };
  await engine.write((writer) => writer.write(place, content));
}

/** The reports that have come in, except those of members that are known already. */
export async function readReports(
  engine: Engine,
  cut: Cut,
  known: ReadonlyMap<string, unknown>,
): Promise<[member: string, report: MemberReport][]> {
  const refs = await engine.storage.readRefs({ sessionId: reportSession(cut), kind: 'branch' });
  const news = refs.map(checkRef).filter(({ name }) => !known.has(name));
  const reports = await Promise.all(news.map((ref) => readReport(engine, ref)));
  return reports.flatMap((report, at) => (report === undefined ? [] : [[news[at]?.name ?? '', report]]));
}

/** Undefined if it is gone already, because someone else aborted the cut. */
async function readReport(engine: Engine, { target }: Ref): Promise<MemberReport | undefined> {
  try {
    return (await readState(engine, await engine.repository.open(target))) as MemberReport;
  } catch (error) {
    if (hasErrorCode(error, 'NOT_FOUND')) return undefined;
    throw error;
  }
}

/** Removes the reports of a cut that has ended. */
export async function deleteReports({ storage }: Engine, cut: Pick<Cut, 'groupId' | 'id'>): Promise<void> {
  await storage.deleteSession(reportSession(cut));
}

/** Removes what earlier cuts of a group left behind when their processes died. Only one cut is open at a time, and it is this one. */
export async function deleteLeftovers(engine: Engine, { groupId, id: current }: Cut): Promise<void> {
  const prefix = reportPrefix(groupId);
  for (const sessionId of await engine.storage.listSessions({ after: prefix, limit: LEFTOVERS })) {
    if (!sessionId.startsWith(prefix)) return;
    const id = sessionId.slice(prefix.length);
    if (isCheckpointId(id) && id !== current) await deleteReports(engine, { groupId, id });
  }
}
