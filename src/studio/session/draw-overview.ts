import { FLAG, type Timeline } from '../data/timeline.ts';
import { colourOf, FONT } from '../frame/canvas-colours.ts';
import { agentToken } from '../parts/agent.tsx';
import { drawIcon, type Surface } from '../parts/canvas.tsx';

const EDGE = 16;
const TOP = 18;
const LANE_HEIGHT = 8;
const LANES = 4;
const FOOT = TOP + LANES * LANE_HEIGHT + 2;
const FOOT_HEIGHT = 12;

/** A branch from its root to its tip. */
export type Overview = {
  readonly timeline: Timeline;
  readonly path: readonly number[];
  readonly agents: readonly string[];
  readonly selected: number;
};

/** Which step is under the pointer. */
export function placeUnder(x: number, width: number, steps: number): number {
  const share = (x - EDGE) / Math.max(1, width - 2 * EDGE);
  return Math.max(0, Math.min(steps - 1, Math.floor(share * steps)));
}

/** Draws at most one column a pixel: 100,000 steps cost what the window is wide. */
export function drawOverview({ g, width }: Surface, { timeline, path, agents, selected }: Overview): void {
  const wide = width - 2 * EDGE;
  const step = wide / Math.max(1, path.length);
  const x = (n: number) => EDGE + n * step;
  const stride = Math.max(1, Math.floor(1 / step));
  for (let n = 0; n < path.length; n += stride) {
    const at = path[n] ?? -1;
    const agent = timeline.agentOf(at);
    const lane = agent === undefined ? 0 : Math.max(0, agents.indexOf(agent)) % LANES;
    g.fillStyle = colourOf(agent === undefined ? 'line-strong' : agentToken(agent));
    g.fillRect(x(n), TOP + lane * LANE_HEIGHT + 1, Math.max(1, step - 1), LANE_HEIGHT - 2);
    const isDrifting = ((timeline.flags[at] ?? 0) & FLAG.drifting) !== 0;
    const high = isDrifting ? FOOT_HEIGHT - 2 : 2;
    g.fillStyle = colourOf(isDrifting ? 'warn-mark' : 'line-strong');
    g.fillRect(x(n), FOOT + FOOT_HEIGHT - high, Math.max(1, step - 1), high);
  }
  drawMarks(g, { timeline, path, agents, selected }, { x, step, right: width - EDGE });
}

type Scale = { readonly x: (n: number) => number; readonly step: number; readonly right: number };

/** Forks, failures and the selection; at most one mark in 12 pixels. */
function drawMarks(
  g: CanvasRenderingContext2D,
  { timeline, path, selected }: Overview,
  { x, step, right }: Scale,
): void {
  let free = 0;
  const here = path.indexOf(selected);
  for (const [n, at] of path.entries()) {
    const hasFailed = ((timeline.flags[at] ?? 0) & FLAG.failed) !== 0;
    const middle = Math.min(right - 12, x(n) + step / 2 - 6);
    const isUnderNumber = here >= 0 && Math.abs(x(here) + step / 2 - 6 - middle) < 22;
    if ((!hasFailed && (timeline.childCounts[at] ?? 0) < 2) || middle < free || isUnderNumber) continue;
    drawIcon(g, hasFailed ? 'fail' : 'fork', {
      x: middle,
      y: 2,
      size: 12,
      colour: colourOf(hasFailed ? 'danger' : 'text-2'),
    });
    free = middle + 14;
  }
  if (here < 0) return;
  const middle = x(here) + step / 2;
  g.fillStyle = colourOf('accent');
  g.fillRect(Math.round(middle) - 1, TOP - 2, 2, LANES * LANE_HEIGHT + FOOT_HEIGHT + 6);
  g.font = `600 11px ${FONT}`;
  g.textBaseline = 'middle';
  g.textAlign = middle > right - 24 ? 'right' : 'center';
  g.fillText(`#${timeline.sequences[selected]}`, Math.min(middle, right), 8.5);
}
