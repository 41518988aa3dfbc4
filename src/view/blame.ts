import { isDeepStrictEqual } from 'node:util';
import type { Change } from '../core/diff/index.ts';
import { isPlainObject } from '../core/options.ts';
import { formatPath, type PathStep } from '../core/path.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import { diffCheckpoints } from '../manager/branch/compare.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { readLive } from '../manager/revision/rounds.ts';
import { type CheckpointOutput, toOutput } from './checkpoint-output.ts';
import type { Watch } from './history.ts';
import { toJsonForm } from './json-form.ts';
import { findAt, openAt } from './state-path.ts';

/** A value, and the checkpoint that set it last. */
export type Blamed = { readonly path: string; readonly value: unknown; readonly checkpoint: CheckpointOutput };

type Path = readonly PathStep[];
type Origin = { readonly from: Checkpoint; readonly path: Path };

/**
 * Which checkpoint last set the value at a path: of a list or an object each element's, unless `isWhole` or it is empty. Goes back
 * until every value was seen to change; each belongs to the checkpoint after the last one where it was different. Reads what
 * differs from one checkpoint to the next, and whole states only where that may be the value.
 */
export async function blame(
  manager: CheckpointManager,
  { from, path: base }: Origin,
  { isWhole, watch }: { readonly isWhole: boolean; readonly watch: Watch },
): Promise<Blamed[]> {
  const state = await manager.load(from.id);
  const value = openAt(state, base);
  const paths = isWhole ? [base] : pathsBelow(base, value);
  const owners = new Map<Path, Checkpoint>();
  const open = new Set(paths);
  let [newer, known] = [from, { id: from.id, state }];
  for await (const older of watch(readLive(manager.engine.storage, from), from.sequence)) {
    const changes = older.stateDigest === newer.stateDigest ? [] : await readChanges(manager, older, newer);
    const changed = [...open].filter((path) => changes.some((change) => isAddedAt(change, path)));
    const asked = [...open].filter(
      (path) => changes.some((change) => mayTouch(change, path)) && !changed.includes(path),
    );
    if (asked.length > 0) {
      const after = known.id === newer.id ? known.state : await manager.load(newer.id);
      known = { id: older.id, state: await manager.load(older.id) };
      changed.push(...asked.filter((path) => !isDeepStrictEqual(findAt(after, path), findAt(known.state, path))));
    }
    for (const path of changed) {
      owners.set(path, newer);
      open.delete(path);
    }
    newer = older;
    if (open.size === 0) break;
  }
  return paths.map((path) => ({
    path: formatPath(path),
    value: toJsonForm(findAt(state, path)) ?? null,
    checkpoint: toOutput(owners.get(path) ?? newer),
  }));
}

async function readChanges(manager: CheckpointManager, older: Checkpoint, newer: Checkpoint) {
  return (await diffCheckpoints(manager.engine, older.id, newer.id)).diff.changes;
}

function isAddedAt({ op, path }: Change, asked: Path): boolean {
  return op === 'add' && path.length === asked.length && path.every((step, at) => step === asked[at]);
}

/** Whether the value at a path can be another one after a change. */
function mayTouch(change: Change, path: Path): boolean {
  const at = change.path.findIndex((step, index) => step !== path[index]);
  const [step, asked] = [change.path[at], path[at]];
  if (typeof step === 'string' && typeof asked === 'string') return false;
  if (typeof step !== 'number' || typeof asked !== 'number' || asked < 0) return true; // also above it, and below
  return at === change.path.length - 1 && firstMoved(change, step) <= asked;
}

/** What comes or goes in a list moves all that is behind it. */
function firstMoved(change: Change, index: number): number {
  if (change.op === 'replace') return Number.POSITIVE_INFINITY;
  return change.op === 'move' ? Math.min(index, Number(change.from.at(-1))) : index;
}

function pathsBelow(path: Path, value: unknown): Path[] {
  const steps = Array.isArray(value) ? [...value.keys()] : isPlainObject(value) ? Object.keys(value) : [];
  return steps.length > 0 ? steps.map((step) => [...path, step]) : [path];
}
