import type { Checkpoint } from '../../core/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';

/** Makes the branch of the first checkpoint it is told of the current one: from then on a run that is killed can be gone on with. */
export function switchOnce(checkpoints: CheckpointManager): (checkpoint: Checkpoint) => Promise<void> {
  let isDone = false;
  return async ({ sessionId, branch }) => {
    if (isDone) return;
    isDone = true;
    await checkpoints.switchBranch(sessionId, branch);
  };
}
