import type { CheckpointOutput } from '../../view/checkpoint-output.ts';
import type { Style } from '../terminal/style.ts';

/** The parents of checkpoints that are not shown, by their ids. */
export type Cuts = ReadonlyMap<string, string | undefined>;

/**
 * Draws how checkpoints hang together, newest first: one lane for each line of history, joined where it was forked, and dotted where
 * checkpoints were deleted.
 */
export function formatGraph(
  newestFirst: readonly CheckpointOutput[],
  /** Knows how many columns are taken already. */
  format: (checkpoint: CheckpointOutput, taken: number) => string,
  {
    style,
    cuts = new Map(),
    folded = new Map(),
  }: { readonly style: Style; readonly cuts?: Cuts; readonly folded?: Cuts },
): string {
  /** The checkpoint each lane leads down to. */
  const lanes: (string | undefined)[] = [];
  const lines: string[] = [];
  for (const checkpoint of newestFirst) {
    const ending = lanes.flatMap((wanted, at) => (wanted === checkpoint.id ? [at] : []));
    const lane = ending[0] ?? findFree(lanes);
    for (const other of ending.slice(1).reverse()) {
      lines.push(style.dim(drawJoin(lanes, lane, other)));
      lanes[other] = undefined;
    }
    dropEmptyEnd(lanes);
    lanes[lane] = checkpoint.id;
    lines.push(`${drawRow(lanes, lane, style)} ${format(checkpoint, lanes.length * 2)}`);
    const { parentId, count } = skipMissing(checkpoint.parentId, { cuts, folded });
    if (count > 0) lines.push(style.dim(`${drawRow(lanes, lane, style, '┆')} ${count} pruned`));
    lanes[lane] = parentId;
    dropEmptyEnd(lanes);
  }
  return lines.map((line) => `${line}\n`).join('');
}

/** The nearest ancestor that is shown, and how many were deleted in between. */
function skipMissing(
  from: string | undefined,
  { cuts, folded }: { readonly cuts: Cuts; readonly folded: Cuts },
): { readonly parentId: string | undefined; readonly count: number } {
  let [parentId, count] = [from, 0];
  while (parentId !== undefined && (cuts.has(parentId) || folded.has(parentId))) {
    if (cuts.has(parentId)) count++;
    parentId = cuts.get(parentId) ?? folded.get(parentId);
  }
  return { parentId, count };
}

function dropEmptyEnd(lanes: (string | undefined)[]): void {
  while (lanes.length > 0 && lanes.at(-1) === undefined) lanes.pop();
}

function findFree(lanes: readonly (string | undefined)[]): number {
  const at = lanes.indexOf(undefined);
  return at < 0 ? lanes.length : at;
}

function drawRow(
  lanes: readonly (string | undefined)[],
  lane: number,
  ...[style, mark = '*']: [style: Style, mark?: string]
): string {
  return lanes.map((wanted, at) => (at === lane ? mark : style.dim(wanted === undefined ? ' ' : '|'))).join(' ');
}

/** A lane that ends runs into the one it was forked from. */
function drawJoin(lanes: readonly (string | undefined)[], lane: number, other: number): string {
  return lanes
    .map((wanted, at) => {
      const mark = wanted === undefined ? ' ' : '|';
      if (at === other) return '  ';
      const isBetween = at >= lane && at < other;
      const gap = at === other - 1 ? '/' : isBetween ? '_' : ' ';
      return mark + gap;
    })
    .join('')
    .trimEnd();
}
