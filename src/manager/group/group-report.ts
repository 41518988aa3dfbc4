import { hasErrorCode } from '../../core/errors.ts';
import { type CheckpointId, isCheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { Ref } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { readState } from '../engine/loading.ts';
import { REPORT_TYPE } from '../engine/save-options.ts';
import type { Cut } from './group-cut.ts';
import type { Channels } from './in-flight.ts';

/** What a member saved for a cut. */
export type MemberSave = { readonly checkpointId: CheckpointId; readonly channels: Channels };

/** What a member of another process answers to a cut. */
export type MemberReport = MemberSave | { readonly failure: string };

/** More leftovers than this are left to the next cut. */
const LEFTOVERS = 100;

/** Reports lie in a session of their own, a branch for each member, so that one call removes them without a trace. */
function reportSession({ groupId, id }: Pick<Cut, 'groupId' | 'id'>): SessionId {
  return parseSessionId(`${reportPrefix(groupId)}${id}`);
}

function reportPrefix(groupId: SessionId): string {
  return `${groupId}/cut/`;
}

/** Stores a member's report; a ConflictError if it has reported already. */
export async function storeReport(
  engine: Engine,
  cut: Cut,
  { member, report }: { readonly member: string; readonly report: MemberReport },
): Promise<void> {
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
