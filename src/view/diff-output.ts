import { formatPath, type PathStep } from '../core/path.ts';
import type { CheckpointComparison } from '../manager/branch/compare.ts';
import { type CheckpointOutput, toOutput } from './checkpoint-output.ts';
import { toJsonForm } from './json-form.ts';
import { parseStatePath } from './state-path.ts';

/** A comparison as commands print it and the server replies it. */
export type DiffOutput = Pick<
  CheckpointComparison,
  'hasChanges' | 'counts' | 'added' | 'removed' | 'modified' | 'moved'
> & {
  readonly before: CheckpointOutput;
  readonly after: CheckpointOutput;
};

/** What changed, or what of it is at a path or below. */
export function toDiffOutput(found: CheckpointComparison, path: string | undefined): DiffOutput {
  const isWanted = createPathFilter(path);
  const pick = <Change extends { readonly path: string }>(changes: readonly Change[]): Change[] =>
    changes.filter((change) => isWanted(change.path)).map(toJsonChange);
  const [added, removed] = [pick(found.added), pick(found.removed)];
  const [modified, moved] = [pick(found.modified), pick(found.moved)];
  const total = { added: added.length, removed: removed.length, modified: modified.length, moved: moved.length };
  return {
    before: toOutput(found.before),
    after: toOutput(found.after),
    hasChanges: Object.values(total).some((count) => count > 0),
    counts: path === undefined ? found.counts : { total, fields: {} },
    added,
    removed,
    modified,
    moved,
  };
}

function toJsonChange<Change extends object>(change: Change): Change {
  const fields = Object.entries(change).map(([name, value]) => [name, toJsonForm(value) ?? null]);
  return Object.fromEntries(fields) as Change;
}

/** Whether a change is at the path, below it, or holds it. */
function createPathFilter(text: string | undefined): (path: string) => boolean {
  if (text === undefined) return () => true;
  const wanted = parseStatePath(text).map((step): PathStep => (/^\d+$/.test(String(step)) ? Number(step) : step));
  const prefix = formatPath(wanted);
  return (path) => path === prefix || isBelow(path, prefix) || isBelow(prefix, path);
}

function isBelow(path: string, prefix: string): boolean {
  return path.startsWith(prefix) && /[.[<]/.test(path.charAt(prefix.length));
}
