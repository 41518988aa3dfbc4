import { formatPath, type PathStep } from '../../core/path.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { visitLeftOut } from '../../core/secret/left-out.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';

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

/** Names every place of a state where a secret was left out, but those where what it was put into has one. */
export function findLeftOutSecrets(state: unknown, live?: unknown): RestoreProblem[] {
  const problems: RestoreProblem[] = [];
  visitLeftOut(state, {
    secret: (path, { name }) => {
      if (isSecretSet(path.reduce(childOf, live))) return;
      problems.push({ path: formatPath(path), problem: `The secret "${name}" was not stored; set it again.` });
    },
  });
  return problems;
}

/** Whether a value can stand for a secret. */
export function isSecretSet(live: unknown): boolean {
  return live !== undefined && live !== null && live !== '' && !(live instanceof SecretRef);
}

function childOf(live: unknown, step: PathStep): unknown {
  if (live instanceof Map) return [...live].find(([key]) => `<key ${String(key)}>` === step)?.[1];
  return typeof live === 'object' && live !== null ? Reflect.get(live, step) : undefined;
}
