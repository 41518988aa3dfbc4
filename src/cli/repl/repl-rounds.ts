import { type CheckpointOutput, describeCheckpoint, formatNames } from '../state/checkpoint-text.ts';
import { clip, formatTime } from '../terminal/format.ts';
import { formatRows } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** A round, and what was said in it as far as that is known. */
export type Round = { readonly checkpoint: CheckpointOutput; readonly said: string | undefined };

const SAID_CHARS = 60;

/** Checkpoints as the rounds of a conversation, with their times. */
export function formatRounds(oldestFirst: readonly Round[], terminal: Terminal): string {
  const { style } = terminal;
  const rows = oldestFirst.map(({ checkpoint, said }) => [
    String(checkpoint.sequence),
    formatTime(new Date(checkpoint.savedAt)),
    style.cyan(checkpoint.id),
    [describeCheckpoint(checkpoint), formatNames(checkpoint, style)].filter((part) => part !== '').join(' '),
    ...(said === undefined ? [] : [clip(said, SAID_CHARS)]),
  ]);
  return formatRows(terminal, rows, { head: ['round', 'saved (UTC)', 'checkpoint', 'what'], right: [0] });
}
