import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type Round, readRounds, roundOf } from '../../manager/revision/rounds.ts';
import { type CheckpointOutput, type Names, toOutput } from '../../view/checkpoint-output.ts';
import type { Context } from '../base/context.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { formatHistory } from '../state/checkpoint-text.ts';
import { readWords } from '../state/words.ts';

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

/** Rounds as a table, the oldest first: their numbers, ids, times, and what was said. */
export async function formatRounds(context: Context, rounds: readonly Round[], names: Names): Promise<string> {
  const all = rounds.flatMap(({ rows }) => rows).reverse();
  const words = await readWords(context, all);
  // A prompt that came after the end of a round has only the number of its checkpoint.
  const numbers = new Map(rounds.map(({ number, end }) => [end.id, number]));
  const head = rounds.some(({ number }) => number !== undefined) ? 'round' : '#';
  const numberOf = ({ id, sequence }: CheckpointOutput) => String(numbers.get(id) ?? `#${sequence}`);
  const outputs = all.map((checkpoint) => toOutput(checkpoint, names));
  return formatHistory(context.terminal, outputs, { words, by: { head, numberOf } });
}
