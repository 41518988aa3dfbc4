import { InvalidInputError } from '../../../core/errors.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import { toOutput } from '../../../view/checkpoint-output.ts';
import { type Command, type CommandInput, type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { type BisectState, type BisectVerdict, readBisect, removeBisect, writeBisect } from '../../place/own-files.ts';
import { readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { formatHeading } from '../../state/checkpoint-text.ts';
import { formatCount } from '../../terminal/format.ts';
import { Bisection, createTest, Search } from './bisect-search.ts';

/** What can be done with a search. */
const ACTIONS: Readonly<Record<string, Command['run']>> = {
  start,
  good: (context, input) => mark(context, input, 'good'),
  bad: (context, input) => mark(context, input, 'bad'),
  skip: (context, input) => mark(context, input, 'skip'),
  run,
  reset,
};

/** Finds where it went wrong. */
export const command: Command = {
  arguments: '<action> [words...]',
  options: [
    ['--range <a..b>', 'run: from a good one to a bad one; default: the whole history of the current branch'],
    ['--where <expression>', 'run: bad is where this expression is true, as for log --where'],
    ['--scan', 'run: check every checkpoint, and report every change from good to bad or back'],
  ],
  details: `Actions: start [bad] [good], good [rev], bad [rev], skip [rev], run, reset.
It only reads, and calls no model: 10,000 checkpoints take 14 checks, and a few more to see whether the result changes more than once.
A command after -- gets the state as JSON on its standard input and the id in SAVESTATE_BISECT_TARGET. It exits with
0 if the checkpoint is good, 125 to skip it, 127 to stop, and anything else if it is bad.
Afterwards the revision first-bad names the result.`,
  examples: [
    [`savestate bisect run --where 'state.plan.length == 0'`, 'the first without a plan'],
    ['savestate bisect run --range v1..@ -- grep -q "refund"', 'the first where a command fails'],
    [`savestate bisect run --scan --where 'status == "FAILED"'`, 'every change from good to bad or back'],
    ['savestate bisect start @ v1', 'by hand: it says what to check'],
    ['savestate bisect good', 'the one it named is good'],
  ],
  run: (context, input) => input.action('bisect', ACTIONS)(context, input),
};

/** Begins a search by hand. */
async function start(context: Context, input: CommandInput): Promise<undefined> {
  const opened = await context.open();
  const find = async (text: string | undefined) => text && (await resolveRevision(opened, text)).id;
  const [badId, goodId] = [await find(input.word(1)), await find(input.word(2))];
  return goOn(context, { ...(goodId && { goodId }), ...(badId && { badId }), verdicts: [] });
}

/** Notes what a person found out. */
async function mark(context: Context, input: CommandInput, verdict: BisectVerdict): Promise<undefined> {
  const state = await readBisect(context);
  if (state === undefined)
    throw new InvalidInputError(`No search is in progress. Start with: ${context.command('bisect start')}`);
  const revision = input.word(1) ?? (await openBisection(context, state))?.next?.id ?? '@';
  const { id } = await resolveRevision(await context.open(), revision);
  return goOn(context, withVerdict(state, id, verdict));
}

async function reset(context: Context): Promise<undefined> {
  await removeBisect(context);
  return context.answer({ status: 'reset', candidates: [] }, () => 'The search is over.\n');
}

/** The first that is said of good and of bad are the ends. */
function withVerdict(state: BisectState, id: CheckpointId, verdict: BisectVerdict): BisectState {
  if (verdict === 'bad' && state.badId === undefined) return { ...state, badId: id };
  if (verdict === 'good' && state.goodId === undefined) return { ...state, goodId: id };
  return { ...state, verdicts: [...state.verdicts.filter(([known]) => known !== id), [id, verdict]] };
}

async function openBisection(context: Context, state: BisectState): Promise<Bisection | undefined> {
  const { goodId, badId, verdicts } = state;
  if (goodId === undefined || badId === undefined) return undefined;
  const checkpoints = await readRange(await context.open(), `${goodId}..${badId}`, { isClosed: true });
  return new Bisection(checkpoints, [[goodId, 'good'], [badId, 'bad'], ...verdicts]);
}

async function goOn(context: Context, state: BisectState): Promise<undefined> {
  const bisection = await openBisection(context, state); // before it is written down: a wrong range must not stay
  const { found, next, candidates = [], stepsLeft } = bisection ?? {};
  await writeBisect(context, { ...state, ...(found && next === undefined && { firstBadId: found.id }) });
  if (bisection === undefined) return askForEnds(context, state);
  if (next === undefined) return tellResult(context, bisection, state.verdicts.length);
  const output = { status: 'testing', next: toOutput(next), candidates: candidates.map(({ id }) => id), stepsLeft };
  const left = `${candidates.length} left, about ${stepsLeft} more looks`;
  await context.answer(output, () => `Look at ${formatHeading(output.next, context.terminal.style)} (${left})\n`);
  context.say(
    `See it: ${context.command(`show ${next.id}`)}    Then say: ${context.command('bisect good')} (or bad, or skip)`,
  );
}

async function askForEnds(context: Context, { goodId, badId }: BisectState): Promise<undefined> {
  const missing = Object.entries({ bad: badId, good: goodId }).flatMap(([end, id]) => (id === undefined ? [end] : []));
  return context.answer(
    { status: 'waiting', candidates: [] },
    () =>
      `Say which checkpoint is ${missing.join(', and which is ')}: ${context.command(`bisect ${missing[0]} <revision>`)}\n`,
  );
}

/** Searches with a command or an expression that says what is good and what is bad. */
async function run(context: Context, input: CommandInput): Promise<ExitCode | undefined> {
  const before = await readBisect(context);
  const { goodId, badId } = before ?? {};
  const range = input.text('range') ?? (goodId && badId ? `${goodId}..${badId}` : '@');
  const bisection = new Bisection(await readRange(await context.open(), range, { isClosed: true }));
  const search = new Search(context, bisection, await createTest(context, input));
  const isScan = input.flag('scan');
  const hasBad = isScan ? await search.scan() : await search.bisect(range.includes('..'));
  if (!hasBad) return tellNothing(context, search, isScan);
  const { found } = bisection;
  if (found !== undefined) await writeBisect(context, { verdicts: [], ...before, firstBadId: found.id });
  await tellResult(context, bisection, search.evaluations);
  return found === undefined ? EXIT.partial : undefined;
}

async function tellNothing(context: Context, { bisection, evaluations }: Search, isScan: boolean): Promise<ExitCode> {
  const result = { status: 'no-bad', candidates: [], evaluations, isMonotone: true, flips: [] };
  const all = formatCount(bisection.checkpoints.length, 'checkpoint');
  await context.answer(
    result,
    () => `${isScan ? 'None' : 'The last'} of these ${all} is ${isScan ? '' : 'not '}bad.\n`,
  );
  if (!isScan) context.say(`To check every one of them: ${context.command('bisect run --scan')}, with the same test`);
  return EXIT.notFound;
}

/** Prints what a search found, and says so if good and bad alternate. */
async function tellResult(context: Context, bisection: Bisection, evaluations: number): Promise<undefined> {
  const { candidates, found, lastGood } = bisection;
  const flips = bisection.flips();
  const result = {
    status: found === undefined ? 'undecided' : 'found',
    ...(found !== undefined && { firstBad: toOutput(found) }),
    ...(lastGood !== undefined && { lastGood: toOutput(lastGood) }),
    candidates: candidates.map(({ id }) => id),
    evaluations,
    isMonotone: flips.length <= 1,
    flips,
  };
  const { style } = context.terminal;
  await context.answer(result, () => {
    if (result.firstBad === undefined)
      return `The first bad one is one of these ${candidates.length}; those between were skipped:\n${candidates.map(({ id }) => `  ${id}\n`).join('')}`;
    const before = result.lastGood === undefined ? '' : `  the one before  ${formatHeading(result.lastGood, style)}\n`;
    return `The first bad checkpoint, after ${formatCount(evaluations, 'look')}:\n  ${formatHeading(result.firstBad, style)}\n${before}`;
  });
  if (!result.isMonotone) {
    const shown = evaluations < bisection.checkpoints.length ? 'Those seen; --scan shows all' : 'All of them';
    const turns = flips.map(({ sequence, checkpointId, to }) => `\n  #${sequence} ${checkpointId} turns ${to}`);
    context.say(`The result changes more than once, so this is one of several places. ${shown}:${turns.join('')}`);
  }
  if (found !== undefined)
    context.say(
      `See what it changed: ${context.command('diff first-bad~1 first-bad')}    Fork before it: ${context.command('fork first-bad~1')}`,
    );
}
