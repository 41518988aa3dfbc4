import { NotFoundError } from '../../core/errors.ts';
import { checkOptions, filledString, isRecord, type OptionChecks } from '../../core/options.ts';
import { type CheckpointId, name, parseSessionId } from '../../core/record/id.ts';
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
  return (await resolveRevision(engine, { sessionId, head }, revision.at)).id;
}
