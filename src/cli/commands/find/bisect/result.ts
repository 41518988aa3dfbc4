import type { Context } from '../../../base/context.ts';
import type { Output } from '../../../base/output-schemas.ts';
import type { Bisection } from '../../../state/bisection.ts';
import { formatLine, toOutput } from '../../../state/checkpoint-text.ts';
import { formatCount } from '../../../terminal/format.ts';

type Result = Extract<Output<'bisect'>, { evaluations: number }>;

/** Prints what a search found, and says so if good and bad alternate. */
export async function tellResult(
  context: Context,
  bisection: Bisection,
  { evaluations, verb = 'bad' }: { readonly evaluations: number; readonly verb?: 'good' | 'bad' },
): Promise<undefined> {
  const result = toResult(bisection, evaluations);
  const { style } = context.terminal;
  await context.answer(result, () => {
    const { firstBad, lastGood, candidates } = result;
    if (firstBad === undefined)
      return `The first ${verb} one is one of these ${candidates.length}; those between were skipped:\n${candidates.map((id) => `  ${id}\n`).join('')}`;
    const before = lastGood === undefined ? '' : `  the one before  ${formatLine(lastGood, style)}\n`;
    return `The first ${verb} checkpoint, after ${formatCount(evaluations, 'look')}:\n  ${formatLine(firstBad, style)}\n${before}`;
  });
  warnAboutFlips(context, result, evaluations < bisection.checkpoints.length);
  if (result.firstBad !== undefined)
    context.say(`See what it changed: savestate diff first-bad    Fork before it: savestate fork first-bad~1`);
}

function toResult(bisection: Bisection, evaluations: number): Result {
  const { candidates, checkpoints, result } = bisection;
  const [firstBad] = candidates;
  const lastGood = checkpoints[result.lastGood];
  const isFound = candidates.length === 1 && firstBad !== undefined;
  const flips = bisection.flips().map(({ at, to }) => {
    const { id, sequence } = checkpoints[at] ?? { id: '', sequence: 0 };
    return { checkpointId: id, sequence, to };
  });
  return {
    status: isFound ? 'found' : 'undecided',
    ...(isFound && { firstBad: toOutput(firstBad) }),
    ...(lastGood !== undefined && lastGood !== firstBad && { lastGood: toOutput(lastGood) }),
    candidates: candidates.map(({ id }) => id),
    evaluations,
    isMonotone: flips.length <= 1,
    flips,
  };
}

function warnAboutFlips(context: Context, { flips, isMonotone }: Result, isPart: boolean): void {
  if (isMonotone) return;
  const turns = flips.map(({ sequence, checkpointId, to }) => `  #${sequence} ${checkpointId} turns ${to}`);
  context.say(
    `It turns more than once, so this is one of several places. ${isPart ? 'Those seen; --scan shows all' : 'All of them'}:\n${turns.join('\n')}`,
  );
}
