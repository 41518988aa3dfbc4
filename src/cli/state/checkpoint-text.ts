import type { CheckpointId } from '../../core/record/id.ts';
import type { CheckpointOutput } from '../../view/checkpoint-output.ts';
import { clip, formatSize, formatTime } from '../terminal/format.ts';
import type { Style } from '../terminal/style.ts';

/** Longer notes are cut in lists; `--long` and `show` have them whole. */
const NOTE_CHARS = 60;

const PREFIX = 'chk_';
/** The time and a little of what makes ids of the same moment differ. */
const SHORT_ID_CHARS = 13;

/** Beginnings of ids for tables, whole where they would not tell these apart; they can be typed as they are. */
export function shortenIds(ids: readonly CheckpointId[]): (id: CheckpointId) => string {
  const shorten = (id: CheckpointId) => id.slice(PREFIX.length, PREFIX.length + SHORT_ID_CHARS);
  const isClear = new Set(ids.map(shorten)).size === new Set(ids).size;
  return (id) => (isClear ? shorten(id) : id.slice(PREFIX.length));
}

/** The names of a checkpoint in brackets, or nothing. */
export function formatNames({ heads = [], tags = [] }: CheckpointOutput, style: Style): string {
  const names = [...heads.map((name) => style.green(name)), ...tags.map((name) => style.yellow(`tag: ${name}`))];
  return names.length === 0 ? '' : `(${names.join(', ')})`;
}

/** What a checkpoint is about, in a few words. */
export function describeCheckpoint({ type, trigger, status, name, note, reason, metadata }: CheckpointOutput): string {
  const about = name ?? note ?? reason;
  return [
    type,
    trigger,
    status,
    formatHealth(metadata),
    about === undefined ? undefined : JSON.stringify(clip(about, NOTE_CHARS)),
  ]
    .filter((part) => part !== undefined)
    .join(' ');
}

/** What a loop recorded of its agent's health: how strong the signs of drift are, and which. */
export function formatHealth(metadata: CheckpointOutput['metadata']): string | undefined {
  const { health, driftScore, driftSignals } = metadata ?? {};
  if (typeof health !== 'string' || typeof driftScore !== 'number') return undefined;
  if (health === 'healthy') return health;
  const signals = Array.isArray(driftSignals) && driftSignals.length > 0 ? ` (${driftSignals.join(', ')})` : '';
  return `${health} ${driftScore.toFixed(2)}${signals}`;
}

/** One line: number, id, names, what it is. */
export function formatLine(checkpoint: CheckpointOutput, style: Style, what = describeCheckpoint(checkpoint)): string {
  const parts = [style.dim(`#${checkpoint.sequence}`), style.cyan(checkpoint.id), formatNames(checkpoint, style), what];
  return parts.filter((part) => part !== '').join(' ');
}

const DETAILS = ['author', 'reason', 'note', 'agentId', 'agentType', 'userId'] as const;

/** A checkpoint in several lines. */
export function formatDetails(checkpoint: CheckpointOutput, style: Style): string {
  const rows: [string, string][] = [
    ['session', `${checkpoint.sessionId}, branch ${checkpoint.branch}`],
    ['saved', `${formatTime(new Date(checkpoint.savedAt))} UTC, ${formatSize(checkpoint.stateBytes)}`],
    ['parent', checkpoint.parentId ?? 'none'],
    ...DETAILS.flatMap((field): [string, string][] =>
      checkpoint[field] === undefined ? [] : [[field, String(checkpoint[field])]],
    ),
    ...(checkpoint.metadata === undefined
      ? []
      : ([['metadata', JSON.stringify(checkpoint.metadata)]] as [string, string][])),
  ];
  return `${formatLine(checkpoint, style)}\n${rows.map(([name, value]) => `  ${style.dim(name.padEnd(9))} ${value}\n`).join('')}`;
}
