import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type Round, readRounds, roundOf } from '../../manager/revision/rounds.ts';
import { type Names, toOutput } from '../../view/checkpoint-output.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { describeCheckpoint, formatNames, shortenIds } from '../state/checkpoint-text.ts';
import { formatRows, formatTime } from '../terminal/format.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Where a checkpoint stands, in words: `round 3`, or its number where nobody counts rounds. */
export function describeRound(checkpoint: Checkpoint): string {
  const round = roundOf(checkpoint);
  return round === undefined ? `#${checkpoint.sequence}` : `round ${round}`;
}

/** The end of the round with this number, as `checkpoints` shows it, also of one that was gone back from; where nobody counts, the checkpoint with it. */
export async function openRound(opened: OpenStorage, number: number): Promise<Checkpoint> {
  const here = await resolveRevision(opened, '@');
  const head = await resolveRevision(opened, await opened.manager.currentBranch(await opened.session()));
  for (const from of here.id === head.id ? [here] : [here, head])
    for await (const round of readRounds(opened.storage, from)) if (round.number === number) return round.end;
  if (roundOf(here) === undefined) return resolveRevision(opened, `#${number}`);
  throw new NotFoundError(`There is no round ${number} here. "checkpoints" lists them.`, {
    details: { round: number },
  });
}

/** The end of the round that is so many before this checkpoint. */
export async function goBack(opened: OpenStorage, from: Checkpoint, count: number): Promise<Checkpoint> {
  if (count === 0) return from;
  let passed = 0;
  for await (const { rows, end } of readRounds(opened.storage, from)) {
    const isHere = rows[0]?.id === from.id && end.id === from.id;
    if (!isHere && ++passed === count) return end;
  }
  throw new NotFoundError(`Only ${formatCount(passed, 'round')} came before this one.`, {
    details: { asked: count, found: passed },
  });
}

/** Rounds as a table, the oldest first: their numbers, times, ids, and what was said. */
export function formatRounds(rounds: readonly Round[], names: Names, terminal: Terminal): string {
  const { style, isScreen } = terminal;
  const all = rounds.flatMap((round) => round.rows.map((checkpoint) => ({ round, checkpoint }))).reverse();
  const shorten = shortenIds(all.map(({ checkpoint }) => checkpoint.id));
  const rows = all.map(({ round, checkpoint }) => {
    const output = toOutput(checkpoint, names);
    // A prompt that came after the end of a round has only the number of its checkpoint.
    const isRound = round.number !== undefined && round.end === checkpoint;
    const what = [formatNames(output, style), checkpoint.contextSummary ?? describeCheckpoint(output)];
    return [
      isRound ? String(round.number) : `#${checkpoint.sequence}`,
      formatTime(checkpoint.timestamp),
      style.cyan(isScreen ? shorten(checkpoint.id) : checkpoint.id),
      what
        .filter((part) => part !== '')
        .join(' ')
        .replaceAll(/\s+/g, ' '),
    ];
  });
  const head = [rounds.some(({ number }) => number !== undefined) ? 'round' : '#', 'saved (UTC)', 'checkpoint', 'what'];
  return formatRows(terminal, rows, { head, right: [0] });
}
