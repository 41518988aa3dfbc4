import type { SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import { isSealedName } from '../../core/record/sealed-name.ts';
import type { ChunkStorage, EffectRow, Ref, RefChange } from '../../storage/contract.ts';
import { refKey } from '../../storage/held-session.ts';
import { countMissing, effectsMissing, readDropped } from '../effect/effect-refs.ts';
import { removeEffects } from '../effect/recording-drop.ts';
import type { ChunkMover } from './chunk-mover.ts';
import { isOpenEffect, isSameCall } from './copied-record.ts';
import type { SealedCheck } from './sealed-check.ts';

/** The names of a session here, and those there by their keys. */
type Names = {
  readonly sessionId: SessionId;
  readonly refs: readonly Ref[];
  readonly there: ReadonlyMap<string, Ref>;
};

/** Of each branch, up to where its steps have ended and are there. */
export type SettledSteps = Map<string, number>;

/**
 * Copies the recorded steps up to the marks; one that ended since is brought up to date. Those that are settled are not looked at, and
 * `settled` is moved on. Returns how many chunks were moved.
 */
export async function copyEffects(
  chunks: ChunkMover,
  {
    sessionId,
    refs,
    there,
    settled,
    sealed,
  }: Names & { readonly settled: SettledSteps; readonly sealed?: SealedCheck | undefined },
  wentOn: (branch: string, where: string) => SavestateError,
): Promise<number> {
  let count = 0;
  const droppedOf = isSealedName(sessionId) ? ofSealed(refs) : readDropped(refs);
  for (const ref of refs.filter(({ kind }) => kind === 'log')) {
    const { name: branch, target } = ref;
    const log = { sessionId, branch, fromOrdinal: settled.get(branch) ?? 0 };
    const rows = (await chunks.from.readEffects(log)).filter(({ ordinal }) => ordinal < Number(target));
    const from = Math.max(log.fromOrdinal, droppedOf(branch));
    if (countMissing(rows, { from, before: Number(target) }) > 0) throw effectsMissing(sessionId, branch);
    const changed = findChanged(rows, await chunks.to.readEffects(log));
    const other = changed.find(({ isOther }) => isOther);
    if (other !== undefined) throw wentOn(branch, `with step ${other.row.ordinal}`);
    const mark = findMark(there, ref);
    for (const { row } of changed) {
      await sealed?.checkEffect(row);
      const commit = { sessionId, effects: [row], refs: [mark] };
      const { moved } = await chunks.bring(row.result, (brought) => chunks.to.commit({ ...commit, ...brought }));
      count += moved.chunks.length;
    }
    settled.set(branch, rows.find(isOpenEffect)?.ordinal ?? Number(target));
  }
  return count;
}

/** That nobody recorded anything in this log meanwhile. */
function findMark(there: ReadonlyMap<string, Ref>, { kind, name }: Ref): RefChange {
  const target = there.get(refKey({ kind, name }))?.target ?? null;
  return { kind, name, expect: target, target };
}

/** The steps that are not there as they are here, and whether another call is in their place. */
function findChanged(rows: readonly EffectRow[], there: readonly EffectRow[]) {
  const known = new Map(there.map((row) => [row.ordinal, row]));
  return rows
    .filter(({ ordinal, digest }) => known.get(ordinal)?.digest !== digest)
    .map((row) => ({ row, isOther: !isSameCall(known.get(row.ordinal) ?? row, row) }));
}

/** Without keys nobody knows which of the marks is a branch's. */
function ofSealed(refs: readonly Ref[]): () => number {
  const counts = refs.filter(isCount).map(({ target }) => Number(target));
  return () => Math.max(0, ...counts);
}

/** Whether a mark counts what was dropped. Such a mark only moves up, also where it is sealed. */
export function isCount({ kind, target }: Pick<Ref, 'kind' | 'target'>): boolean {
  return kind === 'mark' && /^\d+$/.test(target);
}

/** Removes there what was dropped here. */
export async function dropCopied(to: ChunkStorage, { sessionId, refs, there }: Names): Promise<void> {
  const [droppedHere, droppedThere] = [readDropped(refs), readDropped([...there.values()])];
  for (const { kind, name: branch } of refs) {
    const before = kind === 'log' ? droppedHere(branch) : 0;
    if (before > droppedThere(branch)) await removeEffects(to, { sessionId, branch, before });
  }
}
