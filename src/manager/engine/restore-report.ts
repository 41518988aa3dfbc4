import { formatPath } from '../../core/path.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { visitLeftOut } from '../../core/secret/left-out.ts';

/** One thing that a restore could not put back. */
export type RestoreProblem = {
  readonly path: string;
  readonly problem: string;
  /** The checkpoint lacks it, so that nothing of what was saved is lost: the agent keeps what its code gave it. */
  readonly isOwn?: true;
};

/** What a restore did. `complete` only if every item was put back. */
export type RestoreReport = {
  readonly checkpointId: CheckpointId;
  readonly status: 'complete' | 'partial';
  readonly problems: readonly RestoreProblem[];
  /** Versions the state went through, such as `[1, 2, 3]`; empty if it was current. */
  readonly migratedThrough: readonly number[];
};

/** Puts a report together. */
export function createReport(
  checkpointId: CheckpointId,
  problems: readonly RestoreProblem[],
  migratedThrough: readonly number[],
): RestoreReport {
  return { checkpointId, status: problems.length === 0 ? 'complete' : 'partial', problems, migratedThrough };
}

/** Names every place of a state where a secret was left out. */
export function findLeftOutSecrets(state: unknown): RestoreProblem[] {
  const problems: RestoreProblem[] = [];
  visitLeftOut(state, {
    secret: (path, { name }) =>
      problems.push({ path: formatPath(path), problem: `The secret "${name}" was not stored; set it again.` }),
  });
  return problems;
}
