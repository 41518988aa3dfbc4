import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { checkOptions, filledString, isRecord, type OptionChecks } from '../../core/options.ts';
import { type CheckpointId, name, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { Engine } from '../engine/engine.ts';
import { resolveRevision } from './resolve-revision.ts';

/** Names a checkpoint: its id or the beginning of it, or what a revision such as `@~2`, a branch or a tag means in a session. */
export type Revision = string | { readonly sessionId: string; readonly at: string };

const CHECKS: OptionChecks<Exclude<Revision, string>> = {
  sessionId: { required: name },
  at: { required: filledString },
};

/** The id, or the beginning of one, that a revision stands for. */
export async function findRevision(engine: Engine, revision: Revision): Promise<string> {
  if (!isRecord(revision)) return revision;
  checkOptions(revision, CHECKS, 'a revision');
  const sessionId = parseSessionId(revision.sessionId);
  const head = async (): Promise<CheckpointId> => {
    const branch = await engine.currentBranch(sessionId);
    const id = await engine.headOf(sessionId, branch);
    if (id !== undefined) return id;
    throw new NotFoundError(`There is no branch "${branch}" in a session "${sessionId}".`, { details: { sessionId } });
  };
  const found = await resolveRevision(engine, { sessionId, head }, revision.at);
  checkSession(found.id, { sessionId: found.sessionId, asked: sessionId });
  return found.id;
}

/** Refuses a checkpoint of another session than the one that was asked for: what is done to it would be done there. */
export function checkSession(id: CheckpointId, { sessionId, asked }: { sessionId: SessionId; asked: SessionId }): void {
  if (sessionId === asked) return;
  throw new InvalidInputError(
    `Checkpoint ${id} is of session "${sessionId}", not of session "${asked}". Open that session, or name one of its own.`,
    { details: { checkpointId: id, sessionId } },
  );
}
