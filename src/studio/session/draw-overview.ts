import { FLAG, type Timeline } from '../data/timeline.ts';
import { alpha, colourOf, FONT } from '../frame/canvas-colours.ts';
import { agentToken } from '../parts/agent.tsx';
import { drawIcon, type Surface } from '../parts/canvas.tsx';

const EDGE = 16;
const TOP = 18;
const LANE_HEIGHT = 8;
const LANES = 4;
const FOOT = TOP + LANES * LANE_HEIGHT + 2;
const FOOT_HEIGHT = 12;
const BOTTOM = FOOT + FOOT_HEIGHT + 2;
/** How near the pointer must be to an edge of the range to take it. */
const GRIP = 6;

/** A range of steps. */
export type Range = readonly [first: number, last: number];

/** A branch from its root to its tip. */
export type Overview = {
  readonly timeline: Timeline;
  readonly path: readonly number[];
  readonly agents: readonly string[];
  readonly selected: number;
  /** The step that went wrong first; -1: none did. */
  readonly firstBad: number;
  readonly drifting: ReadonlySet<number>;
  readonly range: Range | undefined;
  /** How high the bar of a step is, 0 to 1. */
  readonly sizeOf: (at: number) => number;
};

/** Which step is under the pointer. */
export function placeUnder(x: number, width: number, steps: number): number {
  const share = (x - EDGE) / Math.max(1, width - 2 * EDGE);
  return Math.max(0, Math.min(steps - 1, Math.floor(share * steps)));
}

/** What the pointer takes hold of: an edge of the range, all of it, or nothing yet. */
export type Grip = 'first' | 'last' | 'all' | 'new';

/** What is under the pointer. */
export function gripUnder(
  x: number,
  width: number,
  { range, steps }: { range: Range | undefined; steps: number },
): Grip {
  if (range === undefined) return 'new';
  const scale = (width - 2 * EDGE) / Math.max(1, steps);
  const [left, right] = [EDGE + range[0] * scale, EDGE + (range[1] + 1) * scale];
  if (Math.abs(x - left) <= GRIP) return 'first';
  if (Math.abs(x - right) <= GRIP) return 'last';
  return x > left && x < right ? 'all' : 'new';
}

/** Draws at most one column a pixel: 100,000 steps cost what the window is wide. */
export function drawOverview({ g, width }: Surface, overview: Overview): void {
  const { timeline, path, agents, sizeOf, firstBad, drifting } = overview;
  const step = (width - 2 * EDGE) / Math.max(1, path.length);
  const x = (n: number) => EDGE + n * step;
  const stride = Math.max(1, Math.floor(1 / step));
  const bad = path.indexOf(firstBad);
  for (let n = 0; n < path.length; n += stride) {
    const at = path[n] ?? -1;
    const agent = timeline.agentOf(at);
    const lane = agent === undefined ? 0 : Math.max(0, agents.indexOf(agent)) % LANES;
    const wide = Math.max(1, step - 1);
    g.fillStyle = colourOf(agent === undefined ? 'line-strong' : agentToken(agent));
    g.fillRect(x(n), TOP + lane * LANE_HEIGHT + 1, wide, LANE_HEIGHT - 2);
    const isDrifting = drifting.has(at) || (bad >= 0 && n >= bad);
    const high = 2 + Math.round((FOOT_HEIGHT - 2) * sizeOf(at));
    g.fillStyle = colourOf(isDrifting ? 'warn-mark' : 'line-strong');
    g.fillRect(x(n), FOOT + FOOT_HEIGHT - high, wide, high);
  }
  const scale = { x, step, right: width - EDGE };
  drawRange(g, overview, scale);
  drawMarks(g, overview, scale);
}

type Scale = { readonly x: (n: number) => number; readonly step: number; readonly right: number };

/** The part that is looked at closely: a frame with two grips; the rest is dimmed. */
function drawRange(g: CanvasRenderingContext2D, { range }: Overview, { x, right }: Scale): void {
  if (range === undefined) return;
  const [left, end] = [x(range[0]), x(range[1] + 1)];
  g.fillStyle = alpha(colourOf('bg'), 0.6);
  g.fillRect(EDGE, TOP, left - EDGE, BOTTOM - TOP);
  g.fillRect(end, TOP, right - end, BOTTOM - TOP);
  g.strokeStyle = colourOf('accent');
  g.lineWidth = 1.5;
  g.strokeRect(left - 1.5, TOP - 2.5, end - left + 2, BOTTOM - TOP + 3);
  g.fillStyle = colourOf('accent');
  for (const edge of [left - 1, end + 1]) {
    g.beginPath();
    g.roundRect(edge - 2.5, (TOP + BOTTOM) / 2 - 8, 4, 16, 2);
    g.fill();
  }
}

/** Forks, failures, the first bad step and the selection; at most one mark in 12 pixels. */
function drawMarks(g: CanvasRenderingContext2D, overview: Overview, scale: Scale): void {
  const { timeline, path, selected, firstBad } = overview;
  const { x, step, right } = scale;
  const [here, bad] = [path.indexOf(selected), path.indexOf(firstBad)];
  const numbered = [here, bad].filter((place) => place >= 0).map((place) => x(place) + step / 2 - 6);
  let free = 0;
  for (const [n, at] of path.entries()) {
    const hasFailed = ((timeline.flags[at] ?? 0) & FLAG.failed) !== 0;
    if (!hasFailed && (timeline.childCounts[at] ?? 0) < 2) continue;
    const middle = Math.min(right - 12, x(n) + step / 2 - 6);
    if (middle < free || numbered.some((place) => Math.abs(place - middle) < 22)) continue;
    const colour = colourOf(hasFailed ? 'danger' : 'text-2');
    drawIcon(g, hasFailed ? 'fail' : 'fork', { x: middle, y: 2, size: 12, colour });
    free = middle + 14;
  }
  const isNear = here !== bad && bad >= 0 && Math.abs(x(here) - x(bad)) < 36;
  drawLine(g, { place: here, text: isNear ? '' : `#${timeline.sequences[selected]}`, token: 'accent' }, scale);
  drawLine(g, { place: bad, text: `#${timeline.sequences[firstBad]}`, token: 'danger' }, scale);
}

type Line = { readonly place: number; readonly text: string; readonly token: string };

function drawLine(g: CanvasRenderingContext2D, { place, text, token }: Line, { x, step, right }: Scale): void {
  if (place < 0) return;
  const middle = x(place) + step / 2;
  g.fillStyle = colourOf(token);
  g.fillRect(Math.round(middle) - 1, TOP - 2, 2, BOTTOM - TOP + 2);
  g.font = `600 11px ${FONT}`;
  g.textBaseline = 'middle';
  g.textAlign = middle > right - 24 ? 'right' : 'center';
  g.fillText(text, Math.min(middle, right), 8.5);
}
