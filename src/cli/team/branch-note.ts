import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Context } from '../base/context.ts';
import { Journal } from '../place/own-files.ts';
import type { TeamResult } from './talk.ts';

/** Says who notes the branch that a resumed checkpoint leads to, so that it can be undone. To be called while the branch before is current. */
export async function noteBranch(context: Context, origin: Checkpoint): Promise<(result: TeamResult) => Promise<void>> {
  const before = await (await context.open()).manager.currentBranch(origin.sessionId);
  return async ({ sessionId, branch, checkpointId }) => {
    if (checkpointId === undefined) return;
    (await Journal.open(context)).add({
      sessionId,
      summary: `resume ${origin.id} as branch "${branch}"`,
      undo: [
        { step: 'switch', name: before },
        { step: 'delete-branch', name: branch, headId: checkpointId },
      ],
    });
  };
}
