import { ConflictError } from '../../core/errors.ts';
import { isRefused } from '../../storage/refusal.ts';

/** The refusal of a save in the words of a session: what a program does about another one that writes its branch. Other errors stay. */
export function explainMove(error: unknown, branch: string): unknown {
  if (!isRefused(error, 'moved')) return error;
  const { sessionId, kind, name, expected, found } = error.details;
  if (kind !== 'branch' || name !== branch || found === null) return error;
  const change = expected === null ? `was begun, and is at ${found}` : `moved from ${expected} to ${found}`;
  return new ConflictError(
    `Another process, or another Session object, writes session "${sessionId}": branch "${name}" ${change}. Open it again with manager.session(id) and the same options, and go on from there, or let one write at a time with session.lease().`,
    { details: error.details, cause: error },
  );
}
