import { createRequire } from 'node:module';
import { formatCount } from '../../core/format-count.ts';
import { ESCAPE, SEALED, writeOut } from './style.ts';

export { formatCount };

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

/** A duration of seconds in its two greatest units, rounded to the nearest. */
export function formatDuration(seconds: number): string {
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A character may have many parts, such as a family has; a long text is not measured whole. */
const MAX_UNITS_PER_COLUMN = 16;

/** One line that takes at most so many columns of a screen; what does not fit is replaced by dots. Control characters become spaces, bidi controls are written out, colours of ours stay. */
export function clip(text: string, columns: number): string {
  const parts = splitAt(SEALED, text).map((part, at) => (at % 2 === 1 ? part : part.replaceAll(UNSEEN, ' ')));
  const line = writeOut(parts.join('').trim());
  if (widthOf(line) <= columns) return line;
  return cutAt(line, columns - 1, () => '…');
}

function cutAt(line: string, columns: number, toMark: (left: string) => string): string {
  const kept = takeColumns(splitAt(SEALED, line), columns);
  const left = line.slice(kept.length);
  if (left === '') return line;
  return `${kept}${toMark(left)}${(left.match(SEALED) ?? []).join('')}`; // no colour is left on
}

/** Far more than anybody reads on a screen, such as an image in base64. */
const MAX_CHARS = 4_000;

/** Lines without what nobody reads on a screen: each says how much it lacks. */
export function cutLongLines(text: string): string {
  const toMark = (left: string) => `… ${formatCount(left.replaceAll(SEALED, '').length, 'more character')}`;
  return text.replaceAll(/[^\n]+/g, (line) => (line.length > MAX_CHARS ? cutAt(line, MAX_CHARS, toMark) : line));
}

const UNSEEN = /[\p{Cc}\s]+/gu;

/** Texts, and the colours between them. */
function splitAt(codes: RegExp, text: string): string[] {
  let at = 0;
  const parts = [...text.matchAll(codes)].flatMap((found) => {
    const before = text.slice(at, found.index);
    at = found.index + found[0].length;
    return [before, found[0]];
  });
  return [...parts, text.slice(at)];
}

/** The beginning of a text that fits into so many columns; at odd places of its parts are colours. */
function takeColumns(parts: readonly string[], columns: number): string {
  let [kept, width] = ['', 0];
  for (const [at, part] of parts.entries()) {
    const isColor = at % 2 === 1;
    const characters = charactersOf(part.slice(0, (columns + 1) * MAX_UNITS_PER_COLUMN));
    for (const character of isColor ? [part] : characters) {
      width += isColor ? 0 : widthOf(character);
      if (width > columns) return kept;
      kept += character;
    }
  }
  return kept;
}

/** What a line begins with before its text: spaces, a label and its gap, the sign of a change, the number of a message or a checkpoint. */
const LEAD = /^ *(?:from |#\d+ |[a-zA-Z]+(?: [a-zA-Z]+)* {2,})?(?:[-+~] )?(?:\[\d+\] )?/;
const COLOR = new RegExp(`${ESCAPE}\\[\\d+m`, 'g');

/** A word, or a whole command that a hint names: the beginning of one alone would do something else. */
const PART = /(?<=:) savestate .*?(?= {4}|$)| *[^ ]+| +$/g;

/** Breaks lines that are longer than a screen between words, and words that are longer than it; goes on under the text of the line. */
export function wrapWords(text: string, columns: number): string {
  const spaced = text.replaceAll('\t', '    '); // a terminal takes up to eight columns for one
  return spaced.replaceAll(/[^\n]+/g, (line) => (widthOf(line) <= columns ? line : wrapLine(line, columns)));
}

function wrapLine(line: string, columns: number): string {
  const lead = widthOf(LEAD.exec(line.replaceAll(COLOR, ''))?.[0] ?? '');
  const indent = ' '.repeat(lead * 2 > columns ? 0 : lead);
  const lines: string[] = [];
  let [open, width] = ['', 0];
  const breakBefore = (taken: number): boolean => {
    if (width <= indent.length || width + taken <= columns) return false;
    lines.push(open);
    [open, width] = [indent, indent.length];
    return true;
  };
  for (const [part] of line.matchAll(PART)) {
    const word = breakBefore(widthOf(part)) ? part.trimStart() : part;
    for (const character of unbroken(word, part.startsWith(' savestate '))) {
      const taken = widthOf(character);
      breakBefore(taken);
      open += character;
      width += taken;
    }
  }
  return [...lines, open].join('\n');
}

/** What of a part may not be broken: its characters and colours, or all of a command. */
function* unbroken(part: string, isCommand: boolean): Iterable<string> {
  if (isCommand) return yield part;
  for (const [at, piece] of splitAt(COLOR, part).entries()) yield* at % 2 === 1 ? [piece] : charactersOf(piece);
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
  /** Columns that a narrow screen does without, the first of these first: a part of an id or of a time is of no use. */
  readonly spare?: readonly number[];
};

type Rows = readonly (readonly string[])[];
type Screen = { readonly isScreen: boolean; readonly columns: number };

const GAP = '  ';
/** The last column is prose and gives way first, down to this. */
const MIN_LAST_CHARS = 24;

/** Rows as a table that fits the screen; where there is none, with a tab between values, for programs that read them. */
export function formatRows({ isScreen, columns }: Screen, rows: Rows, options: TableOptions = {}): string {
  return isScreen ? formatTable(rows, { columns, ...options }) : rows.map((row) => `${row.join('\t')}\n`).join('');
}

/** Rows in columns of equal width, two spaces apart; colours do not count. What does not fit into `columns` is cut. */
export function formatTable(
  rows: Rows,
  {
    columns = Number.POSITIVE_INFINITY,
    head,
    right = [],
    spare = [],
  }: TableOptions & { readonly columns?: number } = {},
): string {
  const all = (head === undefined ? rows : [head, ...rows]).map((row) => row.map(writeOut));
  const shown = chooseColumns(measureColumns(all), columns, spare);
  const widths = shrink(
    shown.map(({ width }) => width),
    columns - GAP.length * (shown.length - 1),
  );
  const lines = all.map((row) =>
    shown
      .map(({ at }, nth) => pad(cut(row[at] ?? '', widths[nth] ?? 0), widths[nth] ?? 0, right.includes(at)))
      .join(GAP)
      .trimEnd(),
  );
  return lines.map((line) => `${line}\n`).join('');
}

type Column = { readonly at: number; readonly width: number };

function measureColumns(rows: Rows): Column[] {
  const widths: number[] = [];
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, widthOf(cell));
  return widths.map((width, at) => ({ at, width }));
}

/** Leaves out spare columns until the last has room to say something. */
function chooseColumns(all: readonly Column[], columns: number, spare: readonly number[]): readonly Column[] {
  const taken = all.slice(0, -1).reduce((total, { width }) => total + width + GAP.length, 0);
  const last = Math.min(all.at(-1)?.width ?? 0, MIN_LAST_CHARS);
  const [next, ...rest] = spare;
  if (next === undefined || taken + last <= columns) return all;
  return chooseColumns(
    all.filter(({ at }) => at !== next),
    columns,
    rest,
  );
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

function cut(cell: string, width: number): string {
  return widthOf(cell) <= width && !cell.includes('\n') ? cell : clip(cell, width);
}

function pad(cell: string, width: number, isRight: boolean): string {
  const space = ' '.repeat(Math.max(0, width - widthOf(cell)));
  return isRight ? space + cell : cell + space;
}

/** Characters that take a column each: those of Latin scripts, punctuation, arrows and blocks; no soft hyphen, no mark. */
const NARROW = /^[\x20-\x7e\xa0-\xac\xae-\u02ff\u2010-\u2027\u2190-\u2193\u2500-\u25a0\u25cb\u25cf]*$/;
const COLORS = new RegExp(`${ESCAPE}\\[[\\d;]*m`, 'g');

let measure: ((text: string) => number) | undefined;
let segmenter: Intl.Segmenter | undefined;

/** How many columns of a screen a text takes; colours take none. */
export function widthOf(text: string): number {
  const plain = text.includes(ESCAPE) ? text.replaceAll(COLORS, '') : text;
  if (NARROW.test(plain)) return plain.length;
  // Loading it takes as long as the rest of a command, and few need it.
  measure ??= (createRequire(import.meta.url)('string-width') as typeof import('string-width')).default;
  return measure(text);
}

/** A text as the characters people see. */
function* charactersOf(text: string): Iterable<string> {
  if (NARROW.test(text)) return yield* text;
  segmenter ??= new Intl.Segmenter();
  for (const { segment } of segmenter.segment(text)) yield segment;
}
