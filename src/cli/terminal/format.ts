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
