import { CorruptError, type SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import { isSealedName } from '../../core/record/sealed-name.ts';
import type { ChunkStorage, EffectRow, Ref, RefChange } from '../../storage/contract.ts';
import { countMissing, readDropped } from '../effect/effect-refs.ts';
import type { ChunkMover } from './chunk-mover.ts';
import { isOpenEffect, isSameCall } from './copied-record.ts';

/** Effects that are removed at once. */
const MAX_REMOVED = 1000;

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
  { sessionId, refs, there, settled }: Names & { readonly settled: SettledSteps },
  wentOn: (branch: string, where: string) => SavestateError,
): Promise<number> {
  let count = 0;
  const droppedOf = isSealedName(sessionId) ? ofSealed(refs) : readDropped(refs);
  for (const { name, target } of refs.filter(({ kind }) => kind === 'log')) {
    const log = { sessionId, branch: name, fromOrdinal: settled.get(name) ?? 0 };
    const rows = (await chunks.from.readEffects(log)).filter(({ ordinal }) => ordinal < Number(target));
    const from = Math.max(log.fromOrdinal, droppedOf(name));
    if (countMissing(rows, { from, before: Number(target) }) > 0) throw hidden(sessionId, name);
    for (const row of await findChanged(chunks, log, { rows, wentOn })) {
      const commit = { sessionId, effects: [row], refs: [findMark(there, name)] };
      const { moved } = await chunks.bring(row.result, (brought) => chunks.to.commit({ ...commit, ...brought }));
      count += moved.chunks.length;
    }
    settled.set(name, rows.find(isOpenEffect)?.ordinal ?? Number(target));
  }
  return count;
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
    const log = { sessionId, branch, before, limit: MAX_REMOVED };
    if (before > droppedThere(branch)) while ((await to.dropEffects?.(log)) === MAX_REMOVED);
  }
}

type Log = { readonly sessionId: SessionId; readonly branch: string; readonly fromOrdinal: number };

/** The steps of a log that are not there as they are here. */
async function findChanged(
  { to }: ChunkMover,
  log: Log,
  { rows, wentOn }: { readonly rows: readonly EffectRow[]; readonly wentOn: Parameters<typeof copyEffects>[2] },
): Promise<EffectRow[]> {
  const there = new Map((await to.readEffects(log)).map((row) => [row.ordinal, row]));
  const changed = rows.filter(({ ordinal, digest }) => there.get(ordinal)?.digest !== digest);
  for (const row of changed) {
    const known = there.get(row.ordinal);
    if (known !== undefined && !isSameCall(known, row)) throw wentOn(log.branch, `with step ${row.ordinal}`);
  }
  return changed;
}

/** That nobody recorded anything in this log meanwhile. */
function findMark(there: ReadonlyMap<string, Ref>, name: string): RefChange {
  const target = there.get(JSON.stringify(['log', name]))?.target ?? null;
  return { kind: 'log', name, expect: target, target };
}

function hidden(sessionId: SessionId, branch: string): CorruptError {
  return new CorruptError(`Not all steps of branch "${branch}" of session "${sessionId}" are there. Run verify.`, {
    details: { sessionId, branch },
  });
}
