import { ConflictError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import type { SessionWriter } from '../write/session-writer.ts';

/** An id names one object: of another class or user it is another one, unless the caller says that both belong together. */
export function checkOwner({ id, head }: SessionWriter, { agentType, userId }: SaveOptions): void {
  if (agentType === undefined || head === undefined) return;
  const [type, user] = [head.agentType, head.userId];
  if (differ(type, agentType)) throw ownerConflict(id, String(type), agentType);
  const given = userId === undefined ? undefined : String(userId);
  if (differ(user, given)) throw ownerConflict(id, `user "${user}"`, `user "${given}"`);
}

function ownerConflict(sessionId: SessionId, found: string, expected: string): ConflictError {
  return new ConflictError(
    `Session "${sessionId}" has checkpoints of ${found}, and this is of ${expected} with the same id. Give it an id of its own, or pass { sessionId } to save if both belong together.`,
    { details: { sessionId, expected, found } },
  );
}

/** Whether two names are known and not the same. */
export function differ(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && one !== other;
}
