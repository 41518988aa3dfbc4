import { formatPointer, type PathStep } from '../path.ts';

type AtPath = { readonly path: readonly PathStep[] };

/** One difference between two states. A `move` is of an element that both have, at different places of the same array. */
export type Change = AtPath &
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

/** How many changes of each kind. */
export type ChangeCounts = {
  readonly added: number;
  readonly removed: number;
  readonly modified: number;
  readonly moved: number;
};

/** The changes of a whole diff, and those below each top-level key or index. A replaced root counts in the total only. */
export type CountedChanges = {
  readonly total: ChangeCounts;
  readonly fields: { readonly [field: string]: ChangeCounts };
};

const COUNTED_AS = { add: 'added', remove: 'removed', replace: 'modified', move: 'moved' } as const satisfies Record<
  Change['op'],
  keyof ChangeCounts
>;

const NONE: ChangeCounts = { added: 0, removed: 0, modified: 0, moved: 0 };

/** Counts the changes of a diff, in all and per top-level field. */
export function countChanges({ changes }: StateDiff): CountedChanges {
  let total = NONE;
  const fields: { [field: string]: ChangeCounts } = Object.create(null); // a field may be called `__proto__`
  for (const { op, path } of changes) {
    total = plusOne(total, op);
    const [field] = path;
    if (field !== undefined) fields[field] = plusOne(fields[field] ?? NONE, op);
  }
  return { total, fields };
}

function plusOne(counts: ChangeCounts, op: Change['op']): ChangeCounts {
  const kind = COUNTED_AS[op];
  return { ...counts, [kind]: counts[kind] + 1 };
}

/** An operation of JSON Patch (RFC 6902). Paths are JSON Pointers; values are any that a state may hold. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string };

/** Writes a diff as a JSON Patch: applied one after the other to the earlier state, the operations give the later one. */
export function toPatch({ changes }: StateDiff): JsonPatchOperation[] {
  return changes.map(toOperation);
}

function toOperation(change: Change): JsonPatchOperation {
  const path = formatPointer(change.path);
  switch (change.op) {
    case 'add':
    case 'replace':
      return { op: change.op, path, value: change.value };
    case 'remove':
      return { op: 'remove', path };
    case 'move':
      return { op: 'move', from: formatPointer(change.from), path };
  }
}
