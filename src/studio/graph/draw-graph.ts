import { formatCount, visible } from '../data/format.ts';
import { FLAG, type Timeline } from '../data/timeline.ts';
import { alpha, colourOf, FONT, laneToken } from '../frame/canvas-colours.ts';
import { agentLetter, agentToken, isPerson } from '../parts/agent.tsx';
import { drawIcon, fitText, type Surface } from '../parts/canvas.tsx';
import type { IconName } from '../parts/icons.ts';
import { drawLanes } from './draw-lanes.ts';
import { columnsOf, HEAD_HEIGHT, laneX, ROW_HEIGHT, rowY } from './graph-geometry.ts';
import type { GraphRow } from './graph-rows.ts';

/** What a row says: who, and in which words. */
export type Label = { readonly speaker: string | undefined; readonly text: string };

/** All that a picture of the graph is made of. */
export type GraphPicture = {
  readonly timeline: Timeline;
  readonly rows: readonly GraphRow[];
  /** The first row on the screen; a part of a row when it is scrolled. */
  readonly top: number;
  readonly selected: number;
  readonly second: number;
  readonly hovered: number;
  /** 1 at the selection and all before it. */
  readonly path: Uint8Array;
  readonly labels: ReadonlyMap<string, Label>;
  readonly tags: ReadonlyMap<number, string>;
  readonly drifting: ReadonlySet<number>;
};

/** Draws the rows that are on the screen: the cost follows the height of the window, not the history. */
export function drawGraph(surface: Surface, picture: GraphPicture): void {
  const { g, width, height } = surface;
  const { rows, top } = picture;
  const last = Math.min(rows.length, Math.ceil(top + height / ROW_HEIGHT) + 1);
  const visible = Array.from({ length: Math.max(0, last - Math.floor(top)) }, (_, n) => Math.floor(top) + n);
  g.textBaseline = 'middle';
  for (const row of visible) drawBack(surface, picture, row);
  drawLanes(surface, picture, visible);
  for (const row of visible) drawRow(surface, picture, row);
  drawHead(g, width, picture.timeline);
  drawThumb(surface, picture);
}

function drawBack({ g, width }: Surface, picture: GraphPicture, row: number): void {
  const { rows, selected, second, hovered, top } = picture;
  const { at, count } = rows[row] ?? { at: -1, count: 0 };
  const isSelected = count === 1 && (at === selected || at === second);
  if (!isSelected && row !== hovered) return;
  const y = rowY(row, top) - ROW_HEIGHT / 2;
  g.fillStyle = colourOf(isSelected ? 'bg-selected' : 'bg-hover');
  g.fillRect(0, y, width, ROW_HEIGHT);
  if (!isSelected) return;
  g.fillStyle = colourOf('accent');
  g.fillRect(0, y, 2, ROW_HEIGHT);
}

function drawRow(surface: Surface, picture: GraphPicture, row: number): void {
  const { timeline, rows, top } = picture;
  const entry = rows[row];
  if (entry === undefined) return;
  const y = rowY(row, top);
  const columns = columnsOf(timeline.names.branches.length);
  if (entry.count > 1) drawFold(surface, { picture, entry, y, text: columns.text, icon: columns.agent });
  else drawStep(surface, { picture, at: entry.at, y, columns });
}

type Fold = { picture: GraphPicture; entry: GraphRow; y: number; text: number; icon: number };

function drawFold({ g, width }: Surface, { picture, entry, y, text, icon }: Fold): void {
  const { timeline } = picture;
  const { at, count, drifting = 0 } = entry;
  const muted = colourOf('text-3');
  drawIcon(g, 'right', { x: icon + 1, y: y - 7, size: 14, colour: muted });
  g.textAlign = 'right';
  g.fillStyle = muted;
  g.font = `11px ${FONT}`;
  const range = `#${timeline.sequences[at]}–${timeline.sequences[at + count - 1]}`;
  g.fillText(range, width - 16, y + 0.5);
  const right = width - 24 - g.measureText(range).width;
  g.textAlign = 'left';
  g.font = `12px ${FONT}`;
  const words = `${formatCount(count)} steps${drifting > 0 ? `, ${drifting} drifting` : ''}`;
  g.fillText(fitText(g, words, right - text - (drifting > 0 ? 20 : 0)), text, y + 0.5);
  if (drifting > 0) drawIcon(g, 'warn', { x: right - 14, y: y - 7, size: 14, colour: colourOf('warn') });
}

type Step = { picture: GraphPicture; at: number; y: number; columns: ReturnType<typeof columnsOf> };

function drawStep(surface: Surface, step: Step): void {
  const { g } = surface;
  const { picture, at, y, columns } = step;
  const { timeline, selected, path } = picture;
  const isSelected = at === selected;
  const label = picture.labels.get(timeline.ids[at] ?? '');
  g.textAlign = 'right';
  g.font = `${isSelected ? 600 : 400} 12px ${FONT}`;
  g.fillStyle = colourOf(isSelected ? 'text' : 'text-3');
  g.fillText(String(timeline.sequences[at]), columns.number, y + 0.5);
  const speaker = label?.speaker ?? timeline.agentOf(at);
  if (speaker !== undefined) drawAgent(g, speaker, { x: columns.agent, y });
  const right = drawMarks(surface, step);
  const isMuted = selected >= 0 && path[at] !== 1 && timeline.branches[at] !== timeline.branches[selected];
  g.font = `${isSelected ? 500 : 400} 12px ${FONT}`;
  g.fillStyle = colourOf(isMuted ? 'text-3' : 'text');
  g.textAlign = 'left';
  g.fillText(fitText(g, wordsOf(timeline, at, label), right - columns.text), columns.text, y + 0.5);
}

/** What a row says: what was said about it, what it did, or what it was saved for. */
export function wordsOf(timeline: Timeline, at: number, label: Label | undefined): string {
  const trigger =
    timeline.names.triggers[timeline.triggers[at] ?? -1] ?? timeline.names.types[timeline.types[at] ?? -1];
  return visible(timeline.words.get(at) ?? (label?.text || (trigger ?? 'saved').replaceAll('_', ' ')));
}

function drawAgent(g: CanvasRenderingContext2D, name: string, { x, y }: { x: number; y: number }): void {
  const colour = colourOf(agentToken(name));
  const isInverted = isPerson(name);
  g.fillStyle = isInverted ? colour : alpha(colour, 0.15);
  g.beginPath();
  g.roundRect(x, y - 8, 16, 16, 3);
  g.fill();
  g.font = `600 10px ${FONT}`;
  g.textAlign = 'center';
  g.fillStyle = isInverted ? colourOf('bg') : colour;
  g.fillText(agentLetter(name), x + 8, y + 0.5);
}

const MARKS: readonly (readonly [flag: number, icon: IconName, token: string])[] = [
  [FLAG.failed, 'fail', 'danger'],
  [FLAG.damaged, 'error', 'danger'],
  [FLAG.person, 'edit', 'text-2'],
];

/** The marks at the right edge, from the outside in; returns what is left of the row. */
function drawMarks({ g, width }: Surface, { picture, at, y, columns }: Step): number {
  const { timeline, tags } = picture;
  let right = width - 16;
  const branch = timeline.branches[at] ?? -1;
  const chips: [text: string, token: string][] = [];
  if (timeline.tips.get(branch) === at) chips.push([timeline.branchOf(at), laneToken(branch)]);
  for (const [name, begin] of timeline.bare) if (begin === at) chips.push([name, 'line-control']);
  const tag = tags.get(at);
  if (tag !== undefined) chips.push([tag, 'line-strong']);
  for (const [n, [text, token]] of chips.entries()) {
    // The first one has its place; others only where the words keep theirs. What is left out is in the card of the row.
    const room = Math.min(CHIP_WIDTH, (right - columns.text) * 0.6);
    if (n > 0 && room < LEAST_CHIP_WIDTH) break;
    right = drawChip(g, fitChip(g, text, Math.max(LEAST_CHIP_WIDTH, room)), { right, y, colour: colourOf(token) });
  }
  const icons = MARKS.filter(([flag]) => ((timeline.flags[at] ?? 0) & flag) !== 0);
  const drifts: typeof MARKS = picture.drifting.has(at) ? [[0, 'warn', 'warn']] : [];
  const asks: typeof MARKS = timeline.isAsking(at) ? [[0, 'person', 'warn']] : [];
  const forks: typeof MARKS = (timeline.childCounts[at] ?? 0) > 1 ? [[0, 'fork', 'text-2']] : [];
  for (const [, icon, token] of [...icons, ...drifts, ...asks, ...forks]) {
    if (right - 14 < columns.text) break;
    right -= 14;
    drawIcon(g, icon, { x: right, y: y - 7, size: 14, colour: colourOf(token) });
    right -= 6;
  }
  return right;
}

const CHIP_WIDTH = 120;
const LEAST_CHIP_WIDTH = 36;

function fitChip(g: CanvasRenderingContext2D, text: string, width: number): string {
  g.font = `500 11px ${FONT}`;
  return fitText(g, text, width);
}

function drawChip(
  g: CanvasRenderingContext2D,
  shown: string,
  at: { right: number; y: number; colour: string },
): number {
  const wide = g.measureText(shown).width + 12;
  const x = at.right - wide;
  g.fillStyle = colourOf('bg');
  g.strokeStyle = at.colour;
  g.lineWidth = 1;
  g.beginPath();
  g.roundRect(x + 0.5, at.y - 9.5, wide - 1, 19, 4);
  g.fill();
  g.stroke();
  g.textAlign = 'left';
  g.fillStyle = colourOf('text-2');
  g.fillText(shown, x + 6, at.y + 0.5);
  return x - 6;
}

function drawHead(g: CanvasRenderingContext2D, width: number, timeline: Timeline): void {
  const { branches } = timeline.names;
  const columns = columnsOf(branches.length);
  g.fillStyle = colourOf('bg');
  g.fillRect(0, 0, width, HEAD_HEIGHT);
  g.fillStyle = colourOf('line');
  g.fillRect(0, HEAD_HEIGHT - 1, width, 1);
  g.textAlign = 'center';
  g.font = `600 10px ${FONT}`;
  for (const lane of branches.slice(0, 8).keys()) {
    g.fillStyle = colourOf(laneToken(lane));
    const rest = branches.length - 7;
    g.fillText(lane === 7 && rest > 1 ? `+${rest}` : String(lane + 1), laneX(lane), 12.5);
  }
  g.font = `500 11px ${FONT}`;
  g.fillStyle = colourOf('text-3');
  g.textAlign = 'right';
  g.fillText('#', columns.number, 12.5);
  g.textAlign = 'left';
  g.fillText('Agent and step', columns.agent, 12.5);
}

function drawThumb({ g, width, height }: Surface, { rows, top }: GraphPicture): void {
  const total = rows.length * ROW_HEIGHT;
  const view = height - HEAD_HEIGHT;
  if (total <= view) return;
  const long = Math.max(24, (view / total) * (view - 4));
  const travel = (top * ROW_HEIGHT) / (total - view);
  g.fillStyle = colourOf('line-strong');
  g.beginPath();
  g.roundRect(width - 6, HEAD_HEIGHT + 2 + travel * (view - 4 - long), 4, long, 2);
  g.fill();
}
