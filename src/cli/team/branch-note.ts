import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Context } from '../base/context.ts';
import { Journal } from '../place/journal.ts';
import type { TeamResult } from './talk.ts';

/** Notes the branch that a resumed checkpoint led to, so that it can be undone. */
export class BranchNote {
  readonly #context: Context;
  readonly #origin: Checkpoint;
  readonly #before: string;

  private constructor(context: Context, origin: Checkpoint, before: string) {
    this.#context = context;
    this.#origin = origin;
    this.#before = before;
  }

  /** To be called while the branch before is still the current one. */
  static async begin(context: Context, origin: Checkpoint): Promise<BranchNote> {
    const workspace = await context.workspace();
    return new BranchNote(context, origin, await workspace.currentBranch(origin.sessionId));
  }

  async end({ sessionId, branch, checkpointId }: TeamResult): Promise<void> {
    if (checkpointId === undefined) return;
    (await Journal.open(this.#context)).add({
      sessionId,
      summary: `resume ${this.#origin.id} as branch "${branch}"`,
      undo: [
        { step: 'switch', name: this.#before },
        { step: 'delete-branch', name: branch, headId: checkpointId },
      ],
    });
  }
}
