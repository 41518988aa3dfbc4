import { laneOf, MOST_LANES } from './graph-rows.ts';

/** The height of a row, and of the line with the numbers of lanes. */
export const ROW_HEIGHT = 24;
export const HEAD_HEIGHT = 24;

/** Where the columns are; from the fifth lane on they give way. */
export type Columns = { readonly number: number; readonly agent: number; readonly text: number };

/** The middle of a lane. */
export function laneX(branch: number): number {
  return 20 + laneOf(branch) * 16;
}

/** The columns beside so many lanes. */
export function columnsOf(branches: number): Columns {
  const shift = Math.max(0, Math.min(branches, MOST_LANES) - 4) * 16;
  return { number: 116 + shift, agent: 124 + shift, text: 148 + shift };
}

/** The middle of a row on the canvas. */
export function rowY(row: number, top: number): number {
  return HEAD_HEIGHT + (row - top) * ROW_HEIGHT + ROW_HEIGHT / 2;
}
