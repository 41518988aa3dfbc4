import type { PathStep } from '../path.ts';

type Place = { readonly path: readonly PathStep[] };

/** One difference between two states. A `move` is of an element that both have, at different places of the same array. */
export type Change = Place &
  (
    | { readonly op: 'add'; readonly value: unknown }
    | { readonly op: 'remove'; readonly oldValue: unknown }
    | { readonly op: 'replace'; readonly oldValue: unknown; readonly value: unknown }
    | { readonly op: 'move'; readonly from: readonly PathStep[]; readonly value: unknown }
  );

/**
 * What leads from one state to another. The changes are in the order of a patch: each path holds at the moment when all
 * changes before it are made. An array's removals come first and from the back, so their indexes are those of the earlier
 * state; its additions and what changed inside its elements come last, with the indexes of the later state.
 */
export type StateDiff = { readonly changes: readonly Change[] };
