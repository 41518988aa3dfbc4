import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { ChunkStorage, RefKind } from '../storage/contract.ts';

const PROTECTING: ReadonlySet<RefKind> = new Set(['branch', 'tag', 'pin']);

/** Which of these a branch, a tag or a pin names, and by what: those cannot be deleted. */
export async function readProtecting(
  storage: Pick<ChunkStorage, 'readRefs'>,
  meant: readonly Checkpoint[],
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const sessionId of new Set(meant.map((each) => each.sessionId)))
    for (const { kind, name, target } of await storage.readRefs({ sessionId }))
      if (PROTECTING.has(kind) && meant.some(({ id }) => id === target)) names.set(target, `${kind} "${name}"`);
  return names;
}
