import { CorruptError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { EffectRow, Ref, RefChange } from '../../storage/contract.ts';

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

const DROPPED = 'dropped:';

/** The mark that says before which ordinal the effects of a branch were dropped: those need not be there. It only moves up. */
export function droppedMark(branch: string): { readonly kind: 'mark'; readonly name: string } {
  return { kind: 'mark', name: `${DROPPED}${digestText(branch)}` };
}

/** Whether a ref is such a mark. */
export function isDroppedMark({ kind, name }: Pick<Ref, 'kind' | 'name'>): boolean {
  return kind === 'mark' && name.startsWith(DROPPED);
}

/** Before which ordinal the effects of each branch were dropped, by the session's refs. */
export function readDropped(refs: readonly Ref[]): (branch: string) => number {
  const marks = new Map(refs.filter(isDroppedMark).map(({ name, target }) => [name, Number(target)]));
  return (branch) => marks.get(droppedMark(branch).name) ?? 0;
}

/** How many effects of one log are not there, of those from an ordinal on and before another. */
export function countMissing(
  log: readonly Pick<EffectRow, 'ordinal'>[],
  { from, before }: { readonly from: number; readonly before: number },
): number {
  return Math.max(0, before - from) - log.filter(({ ordinal }) => ordinal >= from && ordinal < before).length;
}

/** Says that effects are not there that should be: a damaged index hides them, or they are lost. */
export function effectsMissing(sessionId: SessionId, branch: string): CorruptError {
  const message = `Not all effects of branch "${branch}" of session "${sessionId}" are there. Run verify.`;
  return new CorruptError(message, { details: { sessionId, branch } });
}

/** The effects of one log that follow each other up to its end. */
export function takeLast<Effect extends Pick<EffectRow, 'ordinal'>>(log: readonly Effect[], count: number): Effect[] {
  const own = log.filter(({ ordinal }) => ordinal < count);
  return own.filter(({ ordinal }, at) => count - ordinal === own.length - at);
}
