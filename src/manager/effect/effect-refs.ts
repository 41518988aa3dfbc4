import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { RefChange } from '../../storage/contract.ts';

/** A branch's mark says how many effects it has. */
const markOf = (count: number): string | null => (count === 0 ? null : `${count}`);

/** Takes the next place in the log of a branch. */
export function moveMark(branch: string, ordinal: number): RefChange {
  return { kind: 'log', name: branch, expect: markOf(ordinal), target: markOf(ordinal + 1) };
}

/** The log of the branch has so many effects. */
export function checkMark(branch: string, count: number): RefChange {
  return { kind: 'log', name: branch, expect: markOf(count), target: markOf(count) };
}

/** The branch is where this line left it, or not there yet: a step of a writer who is late does not run. */
export function checkHead(branch: string, head: Checkpoint | undefined): RefChange {
  const at = head?.id ?? null;
  return { kind: 'branch', name: branch, expect: at, target: at };
}
