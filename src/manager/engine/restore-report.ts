import { formatPath, type PathStep } from '../../core/path.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';

/** One thing that a restore could not put back. */
export type RestoreProblem = { readonly path: string; readonly problem: string };

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
  visit(state, [], (path, secret) =>
    problems.push({ path: formatPath(path), problem: `The secret "${secret.name}" was not stored; set it again.` }),
  );
  return problems;
}

function visit(value: unknown, path: PathStep[], found: (path: PathStep[], secret: SecretRef) => void): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  if (value instanceof SecretRef) {
    found(path, value);
    return;
  }
  for (const [step, child] of childrenOf(value)) {
    if (typeof child !== 'object' || child === null) continue;
    path.push(step);
    visit(child, path, found);
    path.pop();
  }
}

function* childrenOf(value: object): Generator<[PathStep, unknown]> {
  if (Array.isArray(value)) for (let at = 0; at < value.length; at++) yield [at, value[at]];
  else if (value instanceof Map) for (const [key, child] of value) yield [`<key ${String(key)}>`, child];
  else if (value instanceof Set) for (const child of value) yield ['<element>', child];
  else yield* Object.entries(value);
}
