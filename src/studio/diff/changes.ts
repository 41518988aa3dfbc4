import type { Reply } from '../data/server.ts';

/** How two states differ, as the server says. */
export type Diff = Reply<'GET /v1/diff'>;

/** One change, of whatever kind. */
export type Change = {
  readonly kind: 'added' | 'removed' | 'changed' | 'moved';
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** Of a move: where it was. */
  readonly from?: string;
  readonly isCut: boolean;
  /** Only the program needs it: a copy, a counter. */
  readonly isFolded: boolean;
};

export const SIGNS = { added: '+', removed: '−', changed: '~', moved: '⇅' } as const;
export const TONES = { added: 'ok', removed: 'danger', changed: 't2', moved: 'accent' } as const;

const order = new Intl.Collator('en', { numeric: true });

/** All changes of a diff in the order of their paths. */
export function listChanges({ added, removed, modified, moved, folded }: Diff): Change[] {
  const hidden = new Set(folded);
  const of = (path: string, isCut = false) => ({ path, isCut, isFolded: hidden.has(path) });
  const changes: Change[] = [
    ...added.map(({ path, newValue: after, isCut }) => ({ kind: 'added' as const, after, ...of(path, isCut) })),
    ...removed.map(({ path, oldValue: before, isCut }) => ({ kind: 'removed' as const, before, ...of(path, isCut) })),
    ...modified.map(({ path, oldValue: before, newValue: after, isCut }) => ({
      kind: 'changed' as const,
      before,
      after,
      ...of(path, isCut),
    })),
    ...moved.map(({ from, path }) => ({ kind: 'moved' as const, from, ...of(path) })),
  ];
  return changes.sort((a, b) => order.compare(a.path, b.path));
}

/** The steps of a path: $.a[3].b is a, [3], b. */
export function stepsOf(path: string): string[] {
  return [...path.matchAll(/\.([^.[]+)|(\[\d+\])|(\["(?:[^"\\]|\\.)*"\])/g)].map(
    ([, name, index, key]) => name ?? index ?? key ?? '',
  );
}

/** A place in the tree of what changed. */
export type PathRow = {
  readonly path: string;
  readonly name: string;
  readonly depth: number;
  /** How many changes of each kind are at or below it. */
  readonly counts: Readonly<Record<Change['kind'], number>>;
  /** The first change at or below it. */
  readonly first: number;
  readonly kind: Change['kind'] | undefined;
};

/** The places of changes and those above them, as lines of a tree. */
export function toTree(changes: readonly Change[]): PathRow[] {
  const rows = new Map<string, PathRow & { counts: Record<Change['kind'], number> }>();
  for (const [n, { path, kind }] of changes.entries()) {
    const steps = ['$', ...stepsOf(path)];
    for (const [depth, name] of steps.entries()) {
      const key = JSON.stringify(steps.slice(0, depth + 1));
      const isLeaf = depth === steps.length - 1;
      const row = rows.get(key) ?? {
        path: key,
        name,
        depth,
        counts: { added: 0, removed: 0, changed: 0, moved: 0 },
        first: n,
        kind: isLeaf ? kind : undefined,
      };
      row.counts[kind]++;
      rows.set(key, row);
    }
  }
  return [...rows.values()];
}
