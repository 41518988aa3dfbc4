import type { Change, StateDiff } from './change.ts';

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
