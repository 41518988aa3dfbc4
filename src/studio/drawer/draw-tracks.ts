import { alpha, colourOf, FONT } from '../frame/canvas-colours.ts';
import type { Surface } from '../parts/canvas.tsx';

/** One row of a chart: a value a step. */
export type Track = {
  readonly name: string;
  readonly values: readonly (number | undefined)[];
  /** The value at the top of the row. */
  readonly top: number;
  /** From here on it is an alarm. */
  readonly alarm?: number;
  readonly format: (value: number) => string;
};

/** Rows over the same steps. */
export type Chart = {
  readonly tracks: readonly Track[];
  /** The numbers of the steps. */
  readonly sequences: readonly number[];
  /** Which step was the first bad one, and which is selected; -1: none of these. */
  readonly first: number;
  readonly selected: number;
};

const EDGE = { left: 8, right: 16, top: 4, foot: 24 };
/** A number this near to a flag would be half behind it. */
const FLAG_ROOM = 48;
const NUMBERS = 8;

/** Which step is under the pointer. */
export function stepUnder(x: number, width: number, steps: number): number {
  const place = Math.floor(((x - EDGE.left) / Math.max(1, width - EDGE.left - EDGE.right)) * steps);
  return Math.max(0, Math.min(steps - 1, place));
}

/** Draws the rows, what comes after the first bad step shaded. */
export function drawTracks({ g, width, height }: Surface, { tracks, sequences, first, selected }: Chart): void {
  const bottom = height - EDGE.foot;
  const wide = width - EDGE.left - EDGE.right;
  const x = (n: number) => EDGE.left + (wide * (n + 0.5)) / Math.max(1, sequences.length);
  if (first >= 0) {
    g.fillStyle = alpha(colourOf('warn-mark'), 0.08);
    g.fillRect(x(first - 0.5), EDGE.top, width - EDGE.right - x(first - 0.5), bottom - EDGE.top);
  }
  drawNumbers(g, { sequences, x, bottom }, [first, selected]);
  const high = (bottom - EDGE.top) / Math.max(1, tracks.length);
  for (const [n, track] of tracks.entries())
    drawTrack(g, track, { x, top: EDGE.top + n * high, high, width, pixels: wide });
  drawFlag(g, { place: selected, sequences, x, bottom, token: 'accent' });
  drawFlag(g, { place: first, sequences, x, bottom, token: 'danger' });
}

type Axis = { readonly x: (n: number) => number; readonly bottom: number; readonly sequences: readonly number[] };

function drawNumbers(g: CanvasRenderingContext2D, { sequences, x, bottom }: Axis, flags: readonly number[]): void {
  const step = Math.max(1, Math.ceil(sequences.length / NUMBERS));
  g.font = `11px ${FONT}`;
  g.textBaseline = 'middle';
  g.textAlign = 'center';
  for (let n = 0; n < sequences.length; n += step) {
    g.fillStyle = colourOf('line');
    g.fillRect(Math.round(x(n)), EDGE.top, 1, bottom - EDGE.top);
    if (flags.some((flag) => flag >= 0 && Math.abs(x(flag) - x(n)) < FLAG_ROOM)) continue;
    g.fillStyle = colourOf('text-3');
    g.fillText(`#${sequences[n]}`, Math.max(x(n), 16), bottom + 12);
  }
}

type Box = {
  readonly x: (n: number) => number;
  readonly top: number;
  readonly high: number;
  readonly width: number;
  readonly pixels: number;
};

function drawTrack(g: CanvasRenderingContext2D, track: Track, { x, top, high, width, pixels }: Box): void {
  const { values, alarm } = track;
  const most = Math.max(track.top, Number.MIN_VALUE);
  const y = (value: number) => top + high - 4 - (Math.min(most, value) / most) * (high - 10);
  g.fillStyle = colourOf('line');
  g.fillRect(0, Math.round(top + high), width, 1);
  if (alarm !== undefined) drawAlarm(g, Math.round(y(alarm)) + 0.5, width);
  g.lineWidth = 1.5;
  g.lineJoin = 'round';
  const from = alarm === undefined ? -1 : values.findIndex((value) => (value ?? 0) >= alarm);
  g.strokeStyle = colourOf('text-2');
  g.beginPath();
  // At most two points a pixel: 100,000 steps cost what the window is wide.
  const stride = Math.max(1, Math.floor(values.length / (2 * Math.max(1, pixels))));
  for (let n = 0; n < values.length; n += stride) {
    const value = values[n];
    if (value === undefined) continue;
    g.lineTo(x(n), y(value));
    if (from < 0 || n < from || n >= from + stride) continue;
    g.stroke();
    g.strokeStyle = colourOf('warn-mark');
    g.beginPath();
    g.moveTo(x(n), y(value));
  }
  g.stroke();
}

function drawAlarm(g: CanvasRenderingContext2D, y: number, width: number): void {
  g.strokeStyle = colourOf('warn-mark');
  g.lineWidth = 1;
  g.setLineDash([3, 3]);
  g.beginPath();
  g.moveTo(EDGE.left, y);
  g.lineTo(width - EDGE.right, y);
  g.stroke();
  g.setLineDash([]);
}

function drawFlag(
  g: CanvasRenderingContext2D,
  { place, sequences, x, bottom, token }: Axis & { place: number; token: string },
): void {
  if (place < 0) return;
  const text = `#${sequences[place]}`;
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
