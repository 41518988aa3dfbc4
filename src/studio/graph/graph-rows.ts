import { FLAG, type Timeline } from '../data/timeline.ts';

/** A row of the graph: one checkpoint, or a folded run of plain ones. Rows are in the order of time. */
export type GraphRow = {
  readonly at: number;
  readonly count: number /** Of a folded run. */;
  readonly drifting?: number;
};

/** Runs shorter than this are not worth folding. */
const LEAST_FOLD = 3;

/** What must be seen on its own, whatever it is. */
export type Shown = {
  readonly selected: number;
  readonly marked: ReadonlySet<number>;
  readonly opened: ReadonlySet<number>;
  /** Where the agent drifts, as far as that is known. */
  readonly drifting: ReadonlySet<number>;
};

/** The rows of a timeline: in time 100,000 checkpoints take one pass. */
export function rowsOf(timeline: Timeline, isFolding: boolean, shown: Shown): GraphRow[] {
  const rows: GraphRow[] = [];
  for (let at = 0; at < timeline.length; ) {
    const end = isFolding ? endOfRun(timeline, at, shown) : at;
    if (end - at >= LEAST_FOLD && !shown.opened.has(at)) {
      rows.push({ at, count: end - at, drifting: countDrifting(at, end, shown) });
      at = end;
    } else {
      for (const until = Math.max(end, at + 1); at < until; at++) rows.push({ at, count: 1 });
    }
  }
  return rows;
}

function endOfRun(timeline: Timeline, start: number, shown: Shown): number {
  const branch = timeline.branches[start];
  let end = start;
  while (end < timeline.length && timeline.branches[end] === branch && isPlain(timeline, end, shown)) end++;
  return end;
}

function countDrifting(start: number, end: number, { drifting }: Shown): number {
  let count = 0;
  for (let at = start; at < end; at++) if (drifting.has(at)) count++;
  return count;
}

/** A step like any other: nothing branches, fails or was said about it. */
function isPlain(timeline: Timeline, at: number, { selected, marked }: Shown): boolean {
  const branch = timeline.branches[at] ?? -1;
  const notable = (timeline.flags[at] ?? 0) & ~FLAG.drifting;
  return (
    notable === 0 &&
    !timeline.isAsking(at) &&
    at !== selected &&
    !marked.has(at) &&
    !timeline.words.has(at) &&
    (timeline.childCounts[at] ?? 0) < 2 &&
    timeline.tips.get(branch) !== at &&
    (timeline.parents[at] ?? -1) >= 0
  );
}

/** The row that shows a checkpoint; -1 if none does. */
export function rowAt(rows: readonly GraphRow[], at: number): number {
  let [low, high] = [0, rows.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (row === undefined) return -1;
    if (at < row.at) high = middle - 1;
    else if (at >= row.at + row.count) low = middle + 1;
    else return middle;
  }
  return -1;
}

/** Where each branch is drawn: lanes in the order in which branches begin; the ninth and later share the last. */
export function laneOf(branch: number): number {
  return Math.min(branch, MOST_LANES - 1);
}

/** More lanes than this are not told apart. */
export const MOST_LANES = 8;
