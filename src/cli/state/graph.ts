import type { Style } from '../terminal/style.ts';
import type { CheckpointOutput } from './checkpoint-text.ts';

/** Draws how checkpoints hang together, newest first: one lane for each line of history, joined where it was forked. */
export function formatGraph(
  newestFirst: readonly CheckpointOutput[],
  format: (checkpoint: CheckpointOutput) => string,
  style: Style,
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
    lines.push(`${drawRow(lanes, lane, style)} ${format(checkpoint)}`);
    lanes[lane] = checkpoint.parentId;
    dropEmptyEnd(lanes);
  }
  return lines.map((line) => `${line}\n`).join('');
}

function dropEmptyEnd(lanes: (string | undefined)[]): void {
  while (lanes.length > 0 && lanes.at(-1) === undefined) lanes.pop();
}

function findFree(lanes: readonly (string | undefined)[]): number {
  const at = lanes.indexOf(undefined);
  return at < 0 ? lanes.length : at;
}

function drawRow(lanes: readonly (string | undefined)[], lane: number, style: Style): string {
  return lanes.map((wanted, at) => (at === lane ? '*' : style.dim(wanted === undefined ? ' ' : '|'))).join(' ');
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
