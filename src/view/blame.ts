import { isDeepStrictEqual } from 'node:util';
import { isPlainObject } from '../core/options.ts';
import { formatPath, type PathStep } from '../core/path.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { readLive } from '../manager/revision/rounds.ts';
import { type CheckpointOutput, toOutput } from './checkpoint-output.ts';
import type { Watch } from './history.ts';
import { toJsonForm } from './json-form.ts';
import { findAt, openAt } from './state-path.ts';

/** A value, and the checkpoint that set it last. */
export type Blamed = { readonly path: string; readonly value: unknown; readonly checkpoint: CheckpointOutput };

type Origin = { readonly from: Checkpoint; readonly path: readonly PathStep[] };

/**
 * Which checkpoint last set the value at a path: of a list or an object each element's, unless `isWhole`. Goes back until every
 * value was seen to change; each belongs to the checkpoint after the last one where it was different.
 */
export async function blame(
  manager: CheckpointManager,
  { from, path: base }: Origin,
  { isWhole, watch }: { readonly isWhole: boolean; readonly watch: Watch },
): Promise<Blamed[]> {
  const state = await manager.load(from.id);
  const value = openAt(state, base);
  const paths = isWhole ? [base] : pathsBelow(base, value);
  const owners = new Map<readonly PathStep[], Checkpoint>();
  const open = new Set(paths);
  let [newer, newerState] = [from, state];
  for await (const older of watch(readLive(manager.engine.storage, from), from.sequence)) {
    if (older.id === from.id) continue;
    const olderState = older.stateDigest === newer.stateDigest ? newerState : await manager.load(older.id);
    for (const path of open) {
      if (isDeepStrictEqual(findAt(newerState, path), findAt(olderState, path))) continue;
      owners.set(path, newer);
      open.delete(path);
    }
    [newer, newerState] = [older, olderState];
    if (open.size === 0) break;
  }
  return paths.map((path) => ({
    path: formatPath(path),
    value: toJsonForm(findAt(state, path)) ?? null,
    checkpoint: toOutput(owners.get(path) ?? newer),
  }));
}

function pathsBelow(path: readonly PathStep[], value: unknown): PathStep[][] {
  if (Array.isArray(value)) return value.map((_, at) => [...path, at]);
  const keys = isPlainObject(value) ? Object.keys(value) : [];
  return keys.length > 0 ? keys.map((key) => [...path, key]) : [[...path]];
}
