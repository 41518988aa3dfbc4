import { diffText } from '../../core/diff/index.ts';
import type { CheckpointComparison } from '../../manager/branch/compare.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import type { CheckpointOutput } from '../../view/checkpoint-output.ts';
import { readMessage } from '../../view/message-text.ts';
import type { StateView } from '../../view/state-view.ts';
import { formatCount } from '../terminal/format.ts';
import type { Style } from '../terminal/style.ts';
import { describeCheckpoint } from './checkpoint-text.ts';

/** A comparison as commands print it. */
export type DiffOutput = Pick<
  CheckpointComparison,
  'hasChanges' | 'counts' | 'added' | 'removed' | 'modified' | 'moved'
> & {
  readonly before: CheckpointOutput;
  readonly after: CheckpointOutput;
};

/** Longer values are cut, so that a diff can be read; `--json` has them whole. */
const MAX_LINES = 40;
/** A text this long or with line ends is shown word by word where it changed. */
const MIN_TEXT_CHARS = 24;

/** A diff for people: messages as messages, texts word by word, everything else as JSON. With a view: the conversation first, and without what it folds. */
export function formatDiff(diff: DiffOutput, style: Style, view?: StateView): string {
  if (!diff.hasChanges) return '';
  const blocks = [
    ...diff.removed.map(({ path, oldValue }) => ({
      path,
      text: formatBlock(path, formatSigned('-', oldValue, style.red), style),
    })),
    ...diff.moved.map(({ from, path }) => ({ path, text: `${style.bold(path)} ${style.dim(`moved from ${from}`)}\n` })),
    ...diff.modified.map((change) => ({
      path: change.path,
      value: change.newValue,
      text: formatBlock(change.path, formatChange(change, style), style),
    })),
    ...diff.added.map(({ path, newValue }) => ({
      path,
      text: formatBlock(path, formatSigned('+', newValue, style.green), style),
    })),
  ];
  const sides = `${formatSide('from', diff.before, style)}${formatSide('to  ', diff.after, style)}`;
  return sides + arrange(blocks, style, view);
}

type Block = { readonly path: string; readonly text: string; readonly value?: unknown };

/** Shows what a person looks for first, and counts what they do not. */
function arrange(blocks: readonly Block[], style: Style, view: StateView | undefined): string {
  const join = (some: readonly Block[]) => some.map(({ text }) => text).join('');
  if (view === undefined) return join(blocks);
  const shown = blocks.filter(({ path, value }) => !view.isFolded(path, value));
  const isSaid = ({ path }: Block) => view.transcript !== undefined && path.startsWith(view.transcript);
  const folded = blocks.length - shown.length;
  const note =
    folded === 0 ? '' : style.dim(`${formatCount(folded, 'change')} of bookkeeping not shown; --raw shows all\n`);
  return join(shown.filter(isSaid)) + join(shown.filter((block) => !isSaid(block))) + note;
}

/** How many changes there are, in all and for each field. */
export function formatDiffStat({ counts, hasChanges }: DiffOutput, style: Style): string {
  if (!hasChanges) return '';
  const rows = Object.entries(counts.fields).map(([field, each]) => `  ${style.bold(field)}  ${formatCounts(each)}\n`);
  return `${rows.join('')}${formatCounts(counts.total)}\n`;
}

function formatCounts(counts: DiffOutput['counts']['total']): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ');
}

function formatSide(label: string, checkpoint: DiffOutput['before'], style: Style): string {
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
  const isChat = Array.isArray(value) && value.length > 0 && value.every((item) => readMessage(item) !== undefined);
  if (isChat) return value.flatMap(toLines);
  const message = readMessage(value) ?? readMessage(fieldsOf(value).message); // a reply that is to be appended has one inside
  if (message !== undefined) return `${message.speaker}: ${message.text}`.split('\n');
  const text = typeof value === 'string' ? value : (JSON.stringify(value, undefined, 2) ?? 'undefined');
  return text.split('\n');
}

function formatChange({ oldValue, newValue }: DiffOutput['modified'][number], style: Style): string {
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
