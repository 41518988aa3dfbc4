import { stripVTControlCharacters } from 'node:util';
import widthOf from 'string-width';

/** How a table is laid out. */
export type TableOptions = {
  readonly head?: readonly string[];
  /** Columns whose values stand at the right, such as numbers. */
  readonly right?: readonly number[];
};

/** Rows in columns of equal width, two spaces apart; colours do not count. */
export function formatTable(rows: readonly (readonly string[])[], { head, right = [] }: TableOptions = {}): string {
  const all = head === undefined ? rows : [head, ...rows];
  const widths = (all[0] ?? []).map((_, at) => Math.max(...all.map((row) => widthOf(row[at] ?? ''))));
  const lines = all.map((row) =>
    row
      .map((cell, at) => pad(cell, widths[at] ?? 0, right.includes(at)))
      .join('  ')
      .trimEnd(),
  );
  return lines.map((line) => `${line}\n`).join('');
}

/** Rows with a tab between values: for programs that read what is printed. */
export function formatPlain(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => `${row.map((cell) => stripVTControlCharacters(cell)).join('\t')}\n`).join('');
}

function pad(cell: string, width: number, isRight: boolean): string {
  const space = ' '.repeat(Math.max(0, width - widthOf(cell)));
  return isRight ? space + cell : cell + space;
}
