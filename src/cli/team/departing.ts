import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Context } from '../base/context.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { Journal, type UndoStep } from '../place/own-files.ts';

/** Makes the branch of a run that goes on from a checkpoint the current one, so that it can be undone, also if the run fails or is killed. */
export class Departing {
  readonly #opened: OpenStorage;
  readonly #journal: Journal;
  readonly #origin: Checkpoint;
  readonly #branches: ReadonlySet<string>;
  readonly #before: string;
  #made: { readonly branch: string; readonly id: string } | undefined;

  private constructor(opened: OpenStorage, journal: Journal, found: DepartingFrom) {
    this.#opened = opened;
    this.#journal = journal;
    this.#origin = found.origin;
    this.#branches = found.branches;
    this.#before = found.before;
  }

  static async open(context: Context, opened: OpenStorage, origin: Checkpoint): Promise<Departing> {
    const { sessionId } = origin;
    const branches = new Set((await opened.manager.branches(sessionId)).map(({ branch }) => branch));
    const before = await opened.manager.currentBranch(sessionId);
    return new Departing(opened, await Journal.open(context), { origin, branches, before });
  }

  async makeCurrent(branch: string): Promise<void> {
    if (branch === this.#before || branch === this.#made?.branch) return;
    this.#made = { branch, id: this.#note(branch, []) };
    await this.#opened.manager.switchBranch(this.#origin.sessionId, branch);
  }

  /** Where the run left its branch, if it made one: undo takes it away as long as it is there. */
  async end(): Promise<void> {
    if (this.#made === undefined || this.#branches.has(this.#made.branch)) return;
    const { branch, id } = this.#made;
    const headId = await this.#opened.findName(this.#origin.sessionId, 'branch', branch);
    if (headId !== undefined) this.#note(branch, [{ step: 'delete-branch', name: branch, headId }], id);
  }

  #note(branch: string, more: readonly UndoStep[], id?: string): string {
    const { id: from, sessionId } = this.#origin;
    const undo: UndoStep[] = [{ step: 'switch', name: this.#before }, ...more];
    return this.#journal.add({ sessionId, summary: `resume ${from} as branch "${branch}"`, undo }, id);
  }
}

type DepartingFrom = {
  readonly origin: Checkpoint;
  readonly branches: ReadonlySet<string>;
  readonly before: string;
};
