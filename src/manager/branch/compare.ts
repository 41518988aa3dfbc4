import type { Change, CountedChanges, JsonPatchOperation } from '../../core/diff/index.ts';
import { formatPath } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Engine } from '../engine/engine.ts';

/** How one checkpoint differs from another. */
export type CheckpointComparison = {
  readonly before: Checkpoint;
  readonly after: Checkpoint;
  readonly hasChanges: boolean;
  /** Paths of everything that changed, each once, such as `$.messages[3].content`. */
  readonly changedFields: readonly string[];
  readonly oldStatus: string | undefined;
  readonly newStatus: string | undefined;
  readonly added: readonly { readonly path: string; readonly newValue: unknown }[];
  readonly removed: readonly { readonly path: string; readonly oldValue: unknown }[];
  readonly modified: readonly { readonly path: string; readonly oldValue: unknown; readonly newValue: unknown }[];
  readonly moved: readonly { readonly from: string; readonly path: string }[];
  /** RFC 6902: turns the state before into the state after. */
  readonly patch: readonly JsonPatchOperation[];
  readonly counts: CountedChanges;
};

/** Compares the states of two checkpoints; costs what differs, not what is there. */
export async function compare(engine: Engine, idBefore: string, idAfter: string): Promise<CheckpointComparison> {
  const { countChanges, toPatch } = await import('../../core/diff/index.ts'); // many files, which a save does not need
  const { before, after, diff } = await diffCheckpoints(engine, idBefore, idAfter);
  return {
    before,
    after,
    hasChanges: diff.changes.length > 0,
    changedFields: [...new Set(diff.changes.map((change) => formatPath(change.path)))],
    oldStatus: before.status,
    newStatus: after.status,
    ...sortChanges(diff.changes),
    patch: toPatch(diff),
    counts: countChanges(diff),
  };
}

/** What changed between the states of two checkpoints. */
export async function diffCheckpoints({ repository, codec }: Engine, idBefore: string, idAfter: string) {
  const { diffStates } = await import('../../core/diff/index.ts');
  const [before, after] = await Promise.all([repository.open(idBefore), repository.open(idAfter)]);
  const load = repository.readChunks.bind(repository);
  const diff = await diffStates({ before: before.root, after: after.root, load, codec });
  return { before: before.checkpoint, after: after.checkpoint, diff };
}

type Sorted = Pick<CheckpointComparison, 'added' | 'removed' | 'modified' | 'moved'>;

function sortChanges(changes: readonly Change[]): Sorted {
  const of = <Op extends Change['op']>(op: Op) =>
    changes.filter((change): change is Extract<Change, { op: Op }> => change.op === op);
  return {
    added: of('add').map(({ path, value }) => ({ path: formatPath(path), newValue: value })),
    removed: of('remove').map(({ path, oldValue }) => ({ path: formatPath(path), oldValue })),
    modified: of('replace').map(({ path, oldValue, value }) => ({ path: formatPath(path), oldValue, newValue: value })),
    moved: of('move').map(({ from, path }) => ({ from: formatPath(from), path: formatPath(path) })),
  };
}
