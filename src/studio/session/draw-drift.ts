import { alpha, colourOf, FONT } from '../frame/canvas-colours.ts';
import type { Surface } from '../parts/canvas.tsx';

type Point = { readonly sequence: number; readonly scores: Readonly<Record<string, number>> };
type Chart = {
  readonly points: readonly Point[];
  readonly kinds: readonly string[];
  readonly first: number;
  readonly selected: number;
};

const EDGE = { left: 8, right: 16, top: 4, foot: 24 };
/** Scores above this are not told apart. */
const TOP_SCORE = 2;
const MOST_TRACKS = 4;
/** A number this near to a flag would be half behind it. */
const FLAG_ROOM = 48;

/** The kinds of signs that are drawn: the strongest first. */
export function kindsOf(points: readonly Point[]): string[] {
  const best = new Map<string, number>();
  for (const { scores } of points)
    for (const [kind, score] of Object.entries(scores)) best.set(kind, Math.max(best.get(kind) ?? 0, score));
  return [...best]
    .sort(([, a], [, b]) => b - a)
    .slice(0, MOST_TRACKS)
    .map(([kind]) => kind);
}

/** Draws one track a kind; 1 is where the alarm is. */
export function drawDrift({ g, width, height }: Surface, { points, kinds, first, selected }: Chart): void {
  const bottom = height - EDGE.foot;
  const wide = width - EDGE.left - EDGE.right;
  const x = (n: number) => EDGE.left + (wide * (n + 0.5)) / Math.max(1, points.length);
  if (first >= 0) {
    g.fillStyle = alpha(colourOf('warn-mark'), 0.08);
    g.fillRect(x(first - 0.5), EDGE.top, width - EDGE.right - x(first - 0.5), bottom - EDGE.top);
  }
  drawNumbers(g, { points, x, bottom }, [first, selected]);
  const high = (bottom - EDGE.top) / Math.max(1, kinds.length);
  for (const [n, kind] of kinds.entries()) {
    const values = points.map(({ scores }) => scores[kind] ?? 0);
    drawTrack(g, { values, x, top: EDGE.top + n * high, high, width });
  }
  drawFlag(g, { place: selected, points, x, bottom, token: 'accent' });
  drawFlag(g, { place: first, points, x, bottom, token: 'danger' });
}

type Axis = { readonly x: (n: number) => number; readonly bottom: number; readonly points: readonly Point[] };

function drawNumbers(g: CanvasRenderingContext2D, { points, x, bottom }: Axis, flags: readonly number[]): void {
  const step = Math.max(1, Math.ceil(points.length / 8));
  g.font = `11px ${FONT}`;
  g.textBaseline = 'middle';
  g.textAlign = 'center';
  for (let n = 0; n < points.length; n += step) {
    g.fillStyle = colourOf('line');
    g.fillRect(Math.round(x(n)), EDGE.top, 1, bottom - EDGE.top);
    if (flags.some((flag) => flag >= 0 && Math.abs(x(flag) - x(n)) < FLAG_ROOM)) continue;
    g.fillStyle = colourOf('text-3');
    g.fillText(`#${points[n]?.sequence}`, Math.max(x(n), 16), bottom + 12);
  }
}

type Track = {
  readonly values: readonly number[];
  readonly x: (n: number) => number;
  readonly top: number;
  readonly high: number;
  readonly width: number;
};

function drawTrack(g: CanvasRenderingContext2D, { values, x, top, high, width }: Track): void {
  const y = (value: number) => top + high - 3 - (Math.min(TOP_SCORE, value) / TOP_SCORE) * (high - 9);
  g.fillStyle = colourOf('line');
  g.fillRect(0, Math.round(top + high), width, 1);
  g.strokeStyle = colourOf('warn-mark');
  g.setLineDash([3, 3]);
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(EDGE.left, Math.round(y(1)) + 0.5);
  g.lineTo(width - EDGE.right, Math.round(y(1)) + 0.5);
  g.stroke();
  g.setLineDash([]);
  g.lineWidth = 1.5;
  g.lineJoin = 'round';
  g.strokeStyle = colourOf(values.some((value) => value >= 1) ? 'warn-mark' : 'text-2');
  g.beginPath();
  for (const [n, value] of values.entries()) g.lineTo(x(n), y(value));
  g.stroke();
}

function drawFlag(
  g: CanvasRenderingContext2D,
  { place, points, x, bottom, token }: Axis & { place: number; token: string },
): void {
  if (place < 0) return;
  const text = `#${points[place]?.sequence}`;
  g.font = `600 11px ${FONT}`;
  const wide = g.measureText(text).width + 10;
  g.fillStyle = colourOf(token);
  g.fillRect(Math.round(x(place)) - 0.5, EDGE.top, 1.5, bottom - EDGE.top);
  g.beginPath();
  g.roundRect(x(place) - wide / 2, bottom + 4, wide, 16, 3);
  g.fill();
  g.fillStyle = colourOf('bg');
  g.textAlign = 'center';
  g.textBaseline = 'middle';
  g.fillText(text, x(place), bottom + 12.5);
}
