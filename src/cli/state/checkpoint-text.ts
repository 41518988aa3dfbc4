import { withoutUndefined } from '../../core/defined.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { SHORT_ID_CHARS } from '../../core/record/id.ts';
import type { CheckpointOutput } from '../../view/checkpoint-output.ts';
import { findBrought, formatFields } from '../../view/label.ts';
import { readMessage } from '../../view/messages.ts';
import type { Context, OpenStorage } from '../base/command.ts';
import { clip, formatRows, formatSize, formatTime } from '../terminal/format.ts';
import type { Style } from '../terminal/style.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { formatStep, readThreadStep } from '../thread/thread-step.ts';

/** Longer notes are cut in lists; `--long` and `show` have them whole. */
const NOTE_CHARS = 60;

const PREFIX = 'chk_';

/** An id as it is shown and can be typed: its beginning, on a screen. */
export function shortenId(id: string): string {
  return id.slice(PREFIX.length, SHORT_ID_CHARS);
}

/** The same for a table; ids that it would not tell apart are whole. A pipe gets all of them whole. */
function shortenIds(ids: readonly string[], { isScreen }: Terminal): (id: string) => string {
  if (!isScreen) return (id) => id;
  const counts = new Map<string, number>();
  for (const id of ids) counts.set(shortenId(id), (counts.get(shortenId(id)) ?? 0) + 1);
  return (id) => (counts.get(shortenId(id)) === 1 ? shortenId(id) : id.slice(PREFIX.length));
}

/** The names of a checkpoint in brackets, or nothing. */
export function formatNames({ heads = [], tags = [] }: CheckpointOutput, style: Style): string {
  const names = [...heads.map((name) => style.green(name)), ...tags.map((name) => style.yellow(`tag: ${name}`))];
  return names.length === 0 ? '' : `(${names.join(', ')})`;
}

/** What a checkpoint is about, in a few words: what it was saved for, and what is noted of it. */
export function describeCheckpoint({ type, trigger, status, metadata, ...noted }: CheckpointOutput): string {
  const parts = [type, trigger, status, formatHealth(metadata), formatNote(noted)];
  return parts.filter((part) => part !== undefined).join(' ');
}

/** What somebody wrote to a checkpoint. */
function formatNote({ name, note, reason }: Pick<CheckpointOutput, 'name' | 'note' | 'reason'>): string | undefined {
  const about = name ?? note ?? reason;
  return about === undefined ? undefined : JSON.stringify(clip(about, NOTE_CHARS));
}

/** What is no news in a list of what was said. */
const USUAL = /^(running|initializing|completed)$/i;

/** A checkpoint in a list: its names, what is remarkable, and what was said or changed with it. */
function formatWhat(checkpoint: CheckpointOutput, style: Style, words: Words | undefined): string {
  const { status = '', trigger, type } = checkpoint;
  const names = formatNames(checkpoint, style);
  if (words === undefined) return [names, describeCheckpoint(checkpoint)].filter((part) => part !== '').join(' ');
  const isTold = !words.isSaid && trigger?.endsWith(status); // workflow_failed
  const state = USUAL.test(status) || isTold ? '' : paintStatus(status, style);
  const note = style.dim(formatNote(checkpoint) ?? '');
  const parts = words.isSaid
    ? [names, state, note, paintSpeaker(words.text, style)]
    : [names, style.dim(trigger ?? type), state, note, words.text];
  return parts.filter((part) => part !== '').join(' ');
}

function paintStatus(status: string, style: Style): string {
  return /fail|error/i.test(status) ? style.red(status) : style.yellow(status);
}

function paintSpeaker(text: string, style: Style): string {
  const at = text.indexOf(': ');
  return at < 0 ? text : `${style.bold(text.slice(0, at))}${text.slice(at)}`;
}

/** What a loop recorded of its agent's health: how strong the signs of drift are, and which. */
function formatHealth(metadata: CheckpointOutput['metadata']): string | undefined {
  const { health, driftScore, driftSignals } = metadata ?? {};
  if (typeof health !== 'string' || typeof driftScore !== 'number') return undefined;
  if (health === 'healthy') return health;
  const signals = Array.isArray(driftSignals) && driftSignals.length > 0 ? ` (${driftSignals.join(', ')})` : '';
  return `${health} ${driftScore.toFixed(2)}${signals}`;
}

/** One line: number, id, names, what it is. On a screen it fits. */
export function formatLine(
  checkpoint: CheckpointOutput,
  { style, isScreen, columns }: Terminal,
  { words, taken = 0 }: { readonly words?: Words | undefined; readonly taken?: number } = {},
): string {
  const id = style.cyan(isScreen ? shortenId(checkpoint.id) : checkpoint.id);
  const line = `${style.dim(`#${checkpoint.sequence}`)} ${id} ${formatWhat(checkpoint, style, words)}`;
  return isScreen ? clip(line, columns - taken) : line;
}

/** What a history is listed by. */
export type Counting = { readonly head: string; readonly numberOf: (checkpoint: CheckpointOutput) => string };

const BY_SEQUENCE: Counting = { head: '#', numberOf: ({ sequence }) => String(sequence) };

/** Checkpoints as a table: numbers, ids, times, and what was said or changed. */
export function formatHistory(
  terminal: Terminal,
  checkpoints: readonly CheckpointOutput[],
  { words, by = BY_SEQUENCE }: { readonly words: ReadonlyMap<string, Words>; readonly by?: Counting },
): string {
  const shorten = shortenIds(
    checkpoints.map(({ id }) => id),
    terminal,
  );
  const rows = checkpoints.map((checkpoint) => {
    const { id, savedAt, stateBytes } = checkpoint;
    const said = words.get(id);
    const cells = [
      by.numberOf(checkpoint),
      terminal.style.cyan(shorten(id)),
      formatTime(said?.madeAt ?? new Date(savedAt)),
    ];
    const size = terminal.isScreen ? [] : [formatSize(stateBytes)];
    return [...cells, ...size, formatWhat(checkpoint, terminal.style, said)];
  });
  return formatRows(terminal, rows, {
    head: [by.head, 'checkpoint', 'saved (UTC)', 'what'],
    right: [0],
    spare: [1, 2],
  });
}

const DETAILS = ['author', 'reason', 'note', 'agentId', 'agentType', 'userId'] as const;

/** A checkpoint in a sentence, with its whole id. */
export function formatHeading(checkpoint: CheckpointOutput, style: Style): string {
  const { sequence, id } = checkpoint;
  return `${style.dim(`#${sequence}`)} ${style.cyan(id)} ${formatWhat(checkpoint, style, undefined)}`;
}

/** A checkpoint in several lines. */
export function formatDetails(checkpoint: CheckpointOutput, style: Style): string {
  const { sessionId, branch, savedAt, stateBytes, parentId = 'none', metadata } = checkpoint;
  const rows = withoutUndefined({
    session: `${sessionId}, branch ${branch}`,
    saved: `${formatTime(new Date(savedAt))} UTC, ${formatSize(stateBytes)}`,
    parent: parentId,
    ...Object.fromEntries(DETAILS.map((field) => [field, checkpoint[field]])),
    // On one line that can be broken between its parts.
    metadata: metadata && JSON.stringify(metadata, undefined, 1).replaceAll(/\n */g, ' '),
  });
  const lines = Object.entries(rows).map(([name, value]) => `  ${style.dim(name.padEnd(9))} ${value}\n`);
  return `${formatHeading(checkpoint, style)}\n${lines.join('')}`;
}

/** What a checkpoint brought, on one line. */
export type Words = {
  readonly text: string;
  /** Somebody said it; else it is what changed. */
  readonly isSaid: boolean;
  /** When it was made, if that is not when it was saved. */
  readonly madeAt?: Date;
};

/**
 * What was said or changed with each checkpoint, by their ids. What cannot be read says so, and the list goes on. With `isEach` several are
 * listed for one message, and what each was saved for tells them apart.
 */
export async function readWords(
  context: Context,
  checkpoints: readonly Checkpoint[],
  { isEach = false } = {},
): Promise<ReadonlyMap<string, Words>> {
  const words = new Map<string, Words>();
  const opened = await context.open();
  for await (const checkpoint of context.watch(checkpoints, { noun: 'checkpoints', total: checkpoints.length })) {
    const found = await wordsOf(opened, checkpoint).catch((error: unknown) => {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      return { text: 'damaged: see verify --read-data', isSaid: false };
    });
    if (found !== undefined) words.set(checkpoint.id, isEach ? { ...found, isSaid: false } : found);
  }
  return words;
}

async function wordsOf(opened: OpenStorage, checkpoint: Checkpoint): Promise<Words | undefined> {
  const step = await readThreadStep(opened, checkpoint);
  if (step !== undefined) return { text: formatStep(step), isSaid: true, madeAt: step.madeAt };
  const { contextSummary, metadata } = checkpoint;
  if (contextSummary !== undefined) return { text: contextSummary, isSaid: true };
  if (formatHealth(metadata) !== undefined) return undefined; // a loop notes what matters
  const { message, run, changedFields } = await findBrought(opened.manager, checkpoint);
  if (run !== undefined) return { text: run, isSaid: true };
  const said = readMessage(message);
  return said === undefined
    ? { text: formatFields(changedFields), isSaid: false }
    : { text: `${said.speaker}: ${said.text}`, isSaid: true };
}
