import { stripVTControlCharacters } from 'node:util';
import widthOf from 'string-width';

export { formatCount } from '../../core/format-count.ts';

const SIZE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];
const SIZE_STEP = 1000;

/** A size as people read it: `1.5 MB`. */
export function formatSize(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= SIZE_STEP && unit < SIZE_UNITS.length - 1) {
    size /= SIZE_STEP;
    unit++;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${SIZE_UNITS[unit]}`;
}

/** A time as people read it, to the second, in UTC: the same for everyone who looks. */
export function formatTime(time: Date): string {
  return time.toISOString().slice(0, 'yyyy-mm-ddThh:mm:ss'.length).replace('T', ' ');
}

/** A duration of seconds in its two greatest units. */
export function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

const CHARACTERS = new Intl.Segmenter();
/** A character may have many parts, such as a family has; a long text is not measured whole. */
const MAX_UNITS_PER_COLUMN = 16;

/** One line that takes at most so many columns of a screen; what does not fit is replaced by dots. Control characters become spaces. */
export function clip(text: string, columns: number): string {
  const line = text.replaceAll(/[\p{Cc}\p{Bidi_Control}\s]+/gu, ' ').trim();
  if (widthOf(line) <= columns) return line;
  let [kept, width] = ['', 0];
  for (const { segment } of CHARACTERS.segment(line.slice(0, columns * MAX_UNITS_PER_COLUMN))) {
    width += widthOf(segment);
    if (width > columns - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** Breaks lines that are longer than a screen between words, and goes on under their beginning. A longer word stays whole. */
export function wrapWords(text: string, columns: number): string {
  return text.replaceAll(/[^\n]+/g, (line) => (widthOf(line) <= columns ? line : wrapLine(line, columns)));
}

function wrapLine(line: string, columns: number): string {
  const indent = ' '.repeat(line.search(/[^ ]|$/));
  let [wrapped, width] = ['', 0];
  for (const [part] of line.matchAll(/ *[^ ]+| +$/g)) {
    const isOver = width > indent.length && width + widthOf(part) > columns;
    const next = isOver ? indent + part.trimStart() : part;
    wrapped += isOver ? `\n${next}` : next;
    width = widthOf(next) + (isOver ? 0 : width);
  }
  return wrapped;
}

const BARS = '▁▂▃▄▅▆▇█';

/** A row of bars, each as high as its value; the highest is the greatest value, or the one that is given. */
export function formatSparkline(values: readonly number[], full = Math.max(...values, 0)): string {
  const top = BARS.length - 1;
  return values.map((value) => BARS[full === 0 ? 0 : Math.min(top, Math.round((value / full) * top))]).join('');
}

/** How a table is laid out. */
export type TableOptions = {
  readonly head?: readonly string[];
  /** Columns whose values stand at the right, such as numbers. */
  readonly right?: readonly number[];
};

type Rows = readonly (readonly string[])[];
type Screen = { readonly isScreen: boolean; readonly columns: number };

const GAP = '  ';
/** The last column is prose and gives way first, down to this. */
const MIN_LAST_CHARS = 20;

/** Rows as a table that fits the screen; where there is none, with a tab between values, for programs that read them. */
export function formatRows({ isScreen, columns }: Screen, rows: Rows, options: TableOptions = {}): string {
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
  for (let excess = widths.reduce((total, width) => total + width, 0) - available; excess > 0; excess--) {
    const widest = widths.indexOf(Math.max(...widths));
    const at = (widths[last] ?? 0) > MIN_LAST_CHARS ? last : widest;
    if ((widths[at] ?? 0) <= 1) break;
    widths[at] = (widths[at] ?? 0) - 1;
  }
  return widths;
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
