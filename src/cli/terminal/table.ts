import { stripVTControlCharacters } from 'node:util';
import widthOf from 'string-width';
import { clip } from './format.ts';
import type { Terminal } from './terminal.ts';

/** How a table is laid out. */
export type TableOptions = {
  readonly head?: readonly string[];
  /** Columns whose values stand at the right, such as numbers. */
  readonly right?: readonly number[];
};

type Rows = readonly (readonly string[])[];

const GAP = '  ';
/** The last column is prose and gives way first, down to this. */
const MIN_LAST_CHARS = 20;

/** Rows as a table that fits the screen; where there is none, with a tab between values, for programs that read them. */
export function formatRows({ isScreen, columns }: Terminal, rows: Rows, options: TableOptions = {}): string {
  return isScreen ? formatTable(rows, { columns, ...options }) : formatPlain(rows);
}

/** Rows in columns of equal width, two spaces apart; colours do not count. What does not fit into `columns` is cut. */
export function formatTable(
  rows: Rows,
  { columns = Number.POSITIVE_INFINITY, head, right = [] }: TableOptions & { readonly columns?: number } = {},
): string {
  const all = head === undefined ? rows : [head, ...rows];
  const count = Math.max(0, ...all.map((row) => row.length));
  const wanted = Array.from({ length: count }, (_, at) => Math.max(...all.map((row) => widthOf(row[at] ?? ''))));
  const widths = shrink(wanted, columns - GAP.length * (count - 1));
  const lines = all.map((row) =>
    row
      .map((cell, at) => pad(cut(cell, widths[at] ?? 0), widths[at] ?? 0, right.includes(at)))
      .join(GAP)
      .trimEnd(),
  );
  return lines.map((line) => `${line}\n`).join('');
}

/** Takes from the last column what is too much, then from whichever is widest. */
function shrink(wanted: readonly number[], available: number): number[] {
  const widths = [...wanted];
  const last = widths.length - 1;
  for (let excess = sum(widths) - available; excess > 0; excess--) {
    const widest = widths.indexOf(Math.max(...widths));
    const at = (widths[last] ?? 0) > MIN_LAST_CHARS ? last : widest;
    if ((widths[at] ?? 0) <= 1) break;
    widths[at] = (widths[at] ?? 0) - 1;
  }
  return widths;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/** A cell that has to be cut loses its colours: half of one would paint the rest of the line. */
function cut(cell: string, width: number): string {
  return widthOf(cell) <= width ? cell : clip(stripVTControlCharacters(cell), width);
}

function formatPlain(rows: Rows): string {
  return rows.map((row) => `${row.map((cell) => stripVTControlCharacters(cell)).join('\t')}\n`).join('');
}

function pad(cell: string, width: number, isRight: boolean): string {
  const space = ' '.repeat(Math.max(0, width - widthOf(cell)));
  return isRight ? space + cell : cell + space;
}
