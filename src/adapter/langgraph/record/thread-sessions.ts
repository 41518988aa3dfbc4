import type { SessionId } from '../../../core/record/id.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { sessionOf, subgraphPrefix } from './thread-session.ts';

const PAGE = 500;

/** The sessions of a thread: that of its root namespace, whether it exists or not, and those of its subgraphs. */
export async function sessionsOfThread(storage: ChunkStorage, threadId: string): Promise<SessionId[]> {
  return [sessionOf({ threadId, namespace: '' }), ...(await sessionsBelow(storage, subgraphPrefix(threadId)))];
}

/** The sessions whose ids begin with something, in order. */
export async function sessionsBelow(storage: ChunkStorage, prefix: string): Promise<SessionId[]> {
  const sessions: SessionId[] = [];
  for (let after = prefix; ; ) {
    const page = await storage.listSessions({ after, limit: PAGE });
    const own = page.filter((sessionId) => sessionId.startsWith(prefix));
    sessions.push(...own);
    const last = page.at(-1);
    if (last === undefined || own.length < page.length || page.length < PAGE) return sessions;
    after = last;
  }
}
