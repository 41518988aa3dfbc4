import { diffText } from '../../core/diff/index.ts';
import { fieldsOf, listMessages } from '../../manager/revision/transcript.ts';
import { alignTranscripts } from '../../view/compare-branches.ts';
import type { DiffOutput } from '../../view/diff-output.ts';
import { formatValue } from '../../view/json-form.ts';
import { readMessage, readParts } from '../../view/messages.ts';
import { viewOf } from '../../view/state-view.ts';
import { formatCount } from '../terminal/format.ts';
import type { Style } from '../terminal/style.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { describeCheckpoint, shortenId } from './checkpoint-text.ts';

/** Longer values are cut, so that a diff can be read; `--json` has them whole. */
const MAX_LINES = 40;
/** A text this long or with line ends is shown word by word where it changed. */
const MIN_TEXT_CHARS = 24;

/** Two states of which the conversation is shown first, and without what only the program needs. */
export type Talks = { readonly before: unknown; readonly after: unknown };

/** A diff for people: texts word by word, everything else as JSON. With the states: the conversation first, each message once, and no bookkeeping. */
export function formatDiff(diff: DiffOutput, terminal: Terminal, talks?: Talks): string {
  if (!diff.hasChanges) return '';
  const { style } = terminal;
  const sides = `${formatSide('from', diff.before, terminal)}${formatSide('to  ', diff.after, terminal)}`;
  const blocks = toBlocks(diff, style);
  if (talks === undefined) return sides + blocks.map(({ text }) => text).join('');
  const view = viewOf(talks.after);
  const { transcript, talk = [transcript] } = view;
  const said = formatTranscript(talks, style);
  const isSaid = ({ path }: Block) => talk.some((base) => base && (path === base || path.startsWith(`${base}[`)));
  const others = blocks.filter((block) => said === undefined || !isSaid(block));
  const shown = others.filter(({ path, value }) => !view.isFolded(path, value));
  const folded = others.length - shown.length;
  const note =
    folded === 0 ? '' : style.dim(`${formatCount(folded, 'bookkeeping change')} not shown; --all shows everything\n`);
  return sides + (said ?? '') + shown.map(({ text }) => text).join('') + note;
}

/** Top to bottom: `[2]` is before `[10]`; at one path, what went is before what came. */
const BY_PATH = new Intl.Collator('en', { numeric: true });

type Block = { readonly path: string; readonly text: string; readonly value?: unknown };

function toBlocks(diff: DiffOutput, style: Style): Block[] {
  const block = (path: string, body: string, value?: unknown) => ({
    path,
    text: `${style.bold(path)}\n${body}`,
    value,
  });
  return [
    ...diff.removed.map(({ path, oldValue }) => block(path, formatSigned('-', oldValue, { style }))),
    ...diff.moved.map(({ from, path }) => ({ path, text: `${style.bold(path)} ${style.dim(`moved from ${from}`)}\n` })),
    ...diff.modified.map((change) => block(change.path, formatChange(change, style), change.newValue)),
    ...diff.added.map(({ path, newValue }) => block(path, formatSigned('+', newValue, { style }))),
  ].sort((a, b) => BY_PATH.compare(a.path, b.path));
}

/** The messages that differ, in their order: `~` said otherwise, `-` only before, `+` only after. Undefined if there is no conversation. */
function formatTranscript({ before, after }: Talks, style: Style): string | undefined {
  const [a, b] = [listMessages(before) ?? [], listMessages(after) ?? []];
  if (a.length === 0 && b.length === 0) return undefined;
  const lines = alignTranscripts(a.map(readParts), b.map(readParts));
  const same = lines.filter(({ kind }) => kind === 'same').length;
  if (same === lines.length) return '';
  const told = lines.map(({ kind, a: atA, b: atB }) => {
    if (kind === 'same') return '';
    if (atA === undefined) return formatSigned('+', formatSaid(b, atB), { style, indent: '' });
    if (atB === undefined) return formatSigned('-', formatSaid(a, atA), { style, indent: '' });
    return formatChange({ oldValue: formatSaid(a, atA), newValue: formatSaid(b, atB) }, style, '');
  });
  return `${style.bold('messages')} ${style.dim(`${same} the same`)}\n${told.join('')}`;
}

function formatSaid(messages: readonly unknown[], at = 0): string {
  const { speaker, text } = readMessage(messages[at]) ?? { speaker: '', text: formatValue(messages[at]) };
  return `[${at}] ${speaker}: ${text.replaceAll('\n', '\n    ')}`;
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

function formatSide(label: string, checkpoint: DiffOutput['before'], { style, isScreen }: Terminal): string {
  const { sequence, id, branch } = checkpoint;
  const shown = isScreen ? shortenId(id) : id;
  return style.dim(`${label} #${sequence} ${shown} ${branch} ${describeCheckpoint(checkpoint)}\n`);
}

type Look = { readonly style: Style; readonly indent?: string };

function formatSigned(sign: '-' | '+', value: unknown, { style, indent = '  ' }: Look): string {
  const paint = sign === '-' ? style.red : style.green;
  const lines = toLines(value);
  const shown = lines.slice(0, MAX_LINES).map((line, at) => `${indent}${paint(`${at === 0 ? sign : ' '} ${line}`)}\n`);
  return shown.join('') + (lines.length > MAX_LINES ? `${indent}  … ${lines.length - MAX_LINES} more lines\n` : '');
}

function toLines(value: unknown): string[] {
  const message = readMessage(value) ?? readMessage(fieldsOf(value).message); // a reply that is to be appended has one inside
  if (message !== undefined) return `${message.speaker}: ${message.text}`.split('\n');
  const text = typeof value === 'string' ? value : (JSON.stringify(value, undefined, 2) ?? 'undefined');
  return text.split('\n');
}

type Change = { readonly oldValue: unknown; readonly newValue: unknown };

function formatChange({ oldValue, newValue }: Change, style: Style, indent = '  '): string {
  const isText = typeof oldValue === 'string' && typeof newValue === 'string';
  if (isText && Math.max(oldValue.length, newValue.length) >= MIN_TEXT_CHARS && isAlike(oldValue, newValue)) {
    return formatWords([oldValue, newValue], style, indent);
  }
  return formatSigned('-', oldValue, { style, indent }) + formatSigned('+', newValue, { style, indent });
}

/** Texts that share less than half of their letters are read better one after the other. */
function isAlike(before: string, after: string): boolean {
  const lettersIn = (text: string) => text.replaceAll(/\s+/g, '').length;
  const equal = diffText(before, after).reduce((sum, { op, text }) => sum + (op === 'equal' ? lettersIn(text) : 0), 0);
  return equal * 2 >= Math.max(lettersIn(before), lettersIn(after));
}

/** Marks are written too, so that nothing hangs on colour: [-old-] {+new+}, as git does. */
function formatWords([before, after]: readonly [string, string], style: Style, indent: string): string {
  const words = diffText(before, after).map(({ op, text }) => {
    if (op === 'equal') return text;
    return op === 'remove' ? style.red(`[-${text}-]`) : style.green(`{+${text}+}`);
  });
  const lines = words.join('').split('\n');
  return lines.map((line, at) => `${indent}${at === 0 ? '~' : ' '} ${line}\n`).join('');
}
