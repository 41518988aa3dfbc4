import type { SessionId } from '../core/record/id.ts';
import type { ChunkStorage } from '../storage/contract.ts';

/** Names that need no second look. */
const USUAL = /^[\w:|.@ -]*$/;

/** What separates parts, marks a digest or an escape, or may not stand in a session id at all. */
const ESCAPED = /[%/#]|\p{Cc}|\p{Cs}/gu;

const PAGE = 500;

/** A framework's name as one part of a session id: without what separates parts, and one to one. */
export function encodePart(name: string): string {
  if (USUAL.test(name)) return name;
  return name.replace(ESCAPED, (found) => `%${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The name that `encodePart` took. */
export function decodePart(part: string): string {
  return part.replace(/%([0-9a-f]{4})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
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
