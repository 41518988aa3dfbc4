import { placeOf, sessionOf } from '../../adapter/langgraph/record/thread-session.ts';
import { sessionsBelow } from '../../adapter/langgraph/record/thread-sessions.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';

type Opened = { readonly storage: ChunkStorage; readonly manager: CheckpointManager };

/** What the sessions of LangGraph's stores begin with. */
const STORE_PREFIX = 'lg-store/';

/** Whether LangGraph saves here: a thread, or a subgraph of one. */
export function isThreadSession(sessionId: SessionId): boolean {
  return sessionId.startsWith('lg/');
}

/** The thread that a session of a subgraph belongs to; of any other session itself. */
export function threadOf(sessionId: SessionId): SessionId {
  const place = placeOf(sessionId);
  if (place !== undefined) return sessionOf({ ...place, namespace: '' });
  const [, thread] = /^(lg\/[^/]+)\//.exec(sessionId) ?? []; // a long name stands there by its digest
  return (thread ?? sessionId) as SessionId;
}

/** A session and, of a thread of LangGraph, those of its subgraphs: they are one conversation. */
export async function withSubgraphs({ storage }: Opened, sessionId: SessionId): Promise<readonly SessionId[]> {
  const isThread = isThreadSession(sessionId) && threadOf(sessionId) === sessionId;
  return isThread ? [sessionId, ...(await sessionsBelow(storage, `${sessionId}/`))] : [sessionId];
}

/** The session of this name, or the thread of LangGraph with this id if there is no such session. */
export async function findNamedSession(workspace: Opened, name: SessionId): Promise<SessionId> {
  if (await hasSession(workspace, name)) return name;
  const thread = sessionOf({ threadId: name, namespace: '' });
  return (await hasSession(workspace, thread)) ? thread : name;
}

async function hasSession({ storage }: Opened, sessionId: SessionId): Promise<boolean> {
  return (await storage.readRefs({ sessionId, kind: 'branch' })).length > 0;
}

/** The session that was saved to last. A store of LangGraph is none, and a subgraph belongs to its thread. */
export async function findLatestSession(workspace: Opened): Promise<SessionId | undefined> {
  const latest = (await workspace.manager.latest())?.sessionId;
  const isPlain = latest === undefined || (!latest.startsWith(STORE_PREFIX) && threadOf(latest) === latest);
  return isPlain ? latest : findLatestByHeads(workspace);
}

async function findLatestByHeads(workspace: Opened): Promise<SessionId | undefined> {
  const refs = (await workspace.storage.readRefs({ kind: 'branch' })).map(checkRef);
  const known = new Set(refs.map(({ sessionId }) => sessionId));
  const newest = refs
    .filter(({ sessionId }) => !sessionId.startsWith(STORE_PREFIX))
    .reduce<(typeof refs)[number] | undefined>(
      (best, ref) => (best && best.target > ref.target ? best : ref),
      undefined,
    );
  if (newest === undefined) return undefined;
  const thread = threadOf(newest.sessionId);
  return known.has(thread) ? thread : newest.sessionId;
}
