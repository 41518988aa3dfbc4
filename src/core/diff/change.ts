import type { PathStep } from '../path.ts';

/** A value that only the later state has. */
export type AddChange = { readonly op: 'add'; readonly path: readonly PathStep[]; readonly value: unknown };

/** A value that only the earlier state has. */
export type RemoveChange = { readonly op: 'remove'; readonly path: readonly PathStep[]; readonly oldValue: unknown };

/** A value that became another. */
export type ReplaceChange = {
  readonly op: 'replace';
  readonly path: readonly PathStep[];
  readonly oldValue: unknown;
  readonly value: unknown;
};

/** An element that both states have, at different places of the same array. */
export type MoveChange = {
  readonly op: 'move';
  readonly from: readonly PathStep[];
  readonly path: readonly PathStep[];
  readonly value: unknown;
};

/** One difference between two states. */
export type Change = AddChange | RemoveChange | ReplaceChange | MoveChange;

/**
 * What leads from one state to another. The changes are in the order of a patch: each path holds at the moment when all
 * changes before it are made. An array's removals come first and from the back, so their indexes are those of the earlier
 * state; its additions and what changed inside its elements come last, with the indexes of the later state.
 */
export type StateDiff = { readonly changes: readonly Change[] };
