import { diffText } from '../../core/diff/index.ts';
import type { Output } from '../output-schemas.ts';
import type { Style } from '../terminal/style.ts';
import { describeCheckpoint } from './checkpoint-text.ts';
import { readMessage } from './message-text.ts';

type Diff = Output<'diff'>;

/** Longer values are cut, so that a diff can be read; `--json` has them whole. */
const MAX_LINES = 40;
/** A text this long or with line ends is shown word by word where it changed. */
const MIN_TEXT_CHARS = 24;

/** A diff for people: messages as messages, texts word by word, everything else as JSON. */
export function formatDiff(diff: Diff, style: Style): string {
  if (!diff.hasChanges) return '';
  const parts = [
    `${formatSide('from', diff.before, style)}${formatSide('to  ', diff.after, style)}`,
    ...diff.removed.map(({ path, oldValue }) => formatBlock(path, formatSigned('-', oldValue, style.red), style)),
    ...diff.moved.map(({ from, path }) => `${style.bold(path)} ${style.dim(`moved from ${from}`)}\n`),
    ...diff.modified.map((change) => formatBlock(change.path, formatChange(change, style), style)),
    ...diff.added.map(({ path, newValue }) => formatBlock(path, formatSigned('+', newValue, style.green), style)),
  ];
  return parts.join('');
}

/** How many changes there are, in all and for each field. */
export function formatDiffStat({ counts, hasChanges }: Diff, style: Style): string {
  if (!hasChanges) return '';
  const rows = Object.entries(counts.fields).map(([field, each]) => `  ${style.bold(field)}  ${formatCounts(each)}\n`);
  return `${rows.join('')}${formatCounts(counts.total)}\n`;
}

function formatCounts(counts: Diff['counts']['total']): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ');
}

function formatSide(label: string, checkpoint: Diff['before'], style: Style): string {
  const { sequence, id, branch } = checkpoint;
  return style.dim(`${label} #${sequence} ${id} ${branch} ${describeCheckpoint(checkpoint)}\n`);
}

function formatBlock(path: string, body: string, style: Style): string {
  return `${style.bold(path)}\n${body}`;
}

function formatSigned(sign: string, value: unknown, paint: (text: string) => string): string {
  const lines = toLines(value);
  const shown = lines.slice(0, MAX_LINES).map((line) => `  ${paint(`${sign} ${line}`)}\n`);
  return shown.join('') + (lines.length > MAX_LINES ? `    … ${lines.length - MAX_LINES} more lines\n` : '');
}

function toLines(value: unknown): string[] {
  const message = readMessage(value);
  if (message !== undefined) return `${message.speaker}: ${message.text}`.split('\n');
  const text = typeof value === 'string' ? value : (JSON.stringify(value, undefined, 2) ?? 'undefined');
  return text.split('\n');
}

function formatChange({ oldValue, newValue }: Diff['modified'][number], style: Style): string {
  const isText = typeof oldValue === 'string' && typeof newValue === 'string';
  if (isText && Math.max(oldValue.length, newValue.length) >= MIN_TEXT_CHARS && isAlike(oldValue, newValue)) {
    return formatWords(oldValue, newValue, style);
  }
  return formatSigned('-', oldValue, style.red) + formatSigned('+', newValue, style.green);
}

/** Texts that share less than a third are read better one after the other. */
function isAlike(before: string, after: string): boolean {
  const equal = diffText(before, after).reduce((sum, { op, text }) => sum + (op === 'equal' ? text.length : 0), 0);
  return equal * 3 >= Math.max(before.length, after.length);
}

/** Marks are written too, so that nothing hangs on colour: [-old-] {+new+}, as git does. */
function formatWords(before: string, after: string, style: Style): string {
  const words = diffText(before, after).map(({ op, text }) => {
    if (op === 'equal') return text;
    return op === 'remove' ? style.red(`[-${text}-]`) : style.green(`{+${text}+}`);
  });
  const lines = words.join('').split('\n');
  return lines.map((line) => `  ~ ${line}\n`).join('');
}
