import { NotFoundError } from '../../core/errors.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { findCurrentBranch } from '../../manager/engine/records.ts';
import type { Ref, RefKind } from '../../storage/contract.ts';

/** The names of a session, read at once. */
export type SessionRefs = { readonly sessionId: SessionId; readonly refs: readonly Ref[]; readonly current: string };

/** Reads the names of a session; throws a NotFoundError if there is none. One that only recorded steps has no branch yet. */
export async function openRefs({ engine }: CheckpointManager, id: string): Promise<SessionRefs> {
  const sessionId = parseSessionId(id);
  const refs = await engine.repository.readRefs({ sessionId });
  if (!refs.some(({ kind }) => kind === 'branch' || kind === 'log'))
    throw new NotFoundError(`There is no session "${id}" in this storage.`, { details: { sessionId } });
  return { sessionId, refs, current: findCurrentBranch(refs) };
}

/** The whole id of a checkpoint; throws a NotFoundError if it is not in this session. */
export async function checkInside(
  manager: CheckpointManager,
  session: string,
  checkpoint: string,
): Promise<CheckpointId> {
  const { sessionId } = await openRefs(manager, session);
  const { id, sessionId: found } = await manager.open(checkpoint);
  if (found === sessionId) return id;
  throw new NotFoundError(`Checkpoint ${id} is in session "${found}", not in "${sessionId}".`);
}

/** Those of one kind. */
export function refsOf({ refs }: SessionRefs, kind: RefKind): readonly Ref[] {
  return refs.filter((ref) => ref.kind === kind);
}

/** The head of a branch, or of the current one; throws a NotFoundError that names the branches. */
export function headOf(session: SessionRefs, branch = session.current): CheckpointId {
  const heads = refsOf(session, 'branch');
  const found = heads.find(({ name }) => name === branch);
  if (found !== undefined) return found.target as CheckpointId;
  const known = heads.map(({ name }) => name).join(', ') || 'none, it has no checkpoint yet';
  throw new NotFoundError(`Session "${session.sessionId}" has no branch "${branch}" (it has: ${known}).`, {
    details: { sessionId: session.sessionId, branch },
  });
}

/** Throws a NotFoundError unless the branch has a head, or recorded steps. */
export function checkRecorded(session: SessionRefs, branch: string): void {
  if (!refsOf(session, 'log').some(({ name }) => name === branch)) headOf(session, branch);
}

/** What people change: of these the ETag of a session is made. */
const TAGGED: ReadonlySet<RefKind> = new Set(['branch', 'tag', 'pin', 'mark', 'current']);

/** Those that the ETag is made of. */
export function taggedRefs({ refs }: SessionRefs): readonly Ref[] {
  return refs.filter(({ kind }) => TAGGED.has(kind));
}

/** The ETag of a session: another one as soon as any of its names is set, moved or removed. */
export function tagOf(session: SessionRefs): string {
  const names = taggedRefs(session).map(({ kind, name, target }) => [kind, name, target]);
  return `"${digestText(JSON.stringify(names)).slice(0, 32)}"`;
}
