import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Context } from '../base/context.ts';
import { noteOperation, type UndoStep } from '../place/own-files.ts';

/** How a run that goes on from a checkpoint makes its branch the current one. */
type Departing = {
  readonly makeCurrent: (branch: string) => Promise<void>;
  /** Notes where the run left its branch, if it made one: undo takes it away as long as it is there. */
  readonly end: () => Promise<void>;
};

/** Lets a run go on from a checkpoint so that it can be undone, also if it fails or is killed. */
export async function beginDeparting(context: Context, { id: from, sessionId }: Checkpoint): Promise<Departing> {
  const opened = await context.open();
  const { manager } = opened;
  const known = new Set((await manager.branches(sessionId)).map(({ branch }) => branch));
  const before = await manager.currentBranch(sessionId);
  const note = (branch: string, more: readonly UndoStep[], id?: string) => {
    const undo: UndoStep[] = [{ step: 'switch', kind: 'branch', name: before }, ...more];
    return noteOperation(context, { sessionId, summary: `resume ${from} as branch "${branch}"`, undo }, id);
  };
  let made: { readonly name: string; readonly id: string } | undefined;
  return {
    makeCurrent: async (name) => {
      if (name === before || name === made?.name) return;
      made = { name, id: await note(name, []) };
      await manager.switchBranch(sessionId, name);
    },
    end: async () => {
      if (made === undefined || known.has(made.name)) return;
      const { name, id } = made;
      const target = await opened.findName(sessionId, 'branch', name);
      if (target !== undefined) await note(name, [{ step: 'delete', kind: 'branch', name, target }], id);
    },
  };
}
