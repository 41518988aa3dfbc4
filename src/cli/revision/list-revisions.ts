import { isAnswerBranch } from '../../runtime/run/request-answers.ts';
import type { Workspace } from '../base/workspace.ts';

const LAST_CHECKPOINTS = 20;

/** Names that may be completed: branches, and unless only these are wanted tags and the last checkpoints. */
export async function listRevisions(workspace: Workspace, { isBranchesOnly = false } = {}): Promise<string[]> {
  const sessionId = await workspace.findSession();
  if (sessionId === undefined) return [];
  const branches = (await workspace.manager.branches(sessionId))
    .map(({ branch }) => branch)
    .filter((branch) => !isAnswerBranch(branch));
  if (isBranchesOnly) return branches;
  const tags = (await workspace.manager.tags(sessionId)).map(({ name }) => name);
  const { checkpoints } = await workspace.manager.list({ sessionId }, { limit: LAST_CHECKPOINTS });
  return ['@', ...branches, ...tags, ...checkpoints.map(({ id }) => id)];
}
