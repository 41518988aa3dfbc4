import { InvalidInputError } from '../../../../core/errors.ts';
import type { CheckpointId } from '../../../../core/record/id.ts';
import type { CommandInput } from '../../../base/command-input.ts';
import type { Context } from '../../../base/context.ts';
import { BisectFile, type BisectState, type Verdict } from '../../../place/bisect-file.ts';
import { readRange, resolveRevision } from '../../../revision/resolve-revision.ts';
import { Bisection } from '../../../state/bisection.ts';
import { formatLine, toOutput } from '../../../state/checkpoint-text.ts';
import { tellResult } from './result.ts';

/** Begins a search by hand. */
export async function start(context: Context, input: CommandInput): Promise<undefined> {
  const workspace = await context.workspace();
  const [bad, good] = await Promise.all(
    [input.word(1), input.word(2)].map(async (text) =>
      text === undefined ? undefined : (await resolveRevision(workspace, text)).id,
    ),
  );
  return goOn(context, {
    ...(good !== undefined && { goodId: good }),
    ...(bad !== undefined && { badId: bad }),
    verdicts: [],
  });
}

/** Notes what a person found out. */
export async function mark(context: Context, input: CommandInput, verdict: Verdict): Promise<undefined> {
  const file = new BisectFile(await context.stateFolder());
  const state = file.read();
  if (state === undefined) throw new InvalidInputError('No search is under way. Begin with: savestate bisect start');
  const id = await findTarget(context, state, input.word(1));
  return goOn(context, withVerdict(state, id, verdict));
}

/** Ends a search. */
export async function reset(context: Context): Promise<undefined> {
  new BisectFile(await context.stateFolder()).remove();
  return context.answer({ status: 'reset', candidates: [] }, () => 'The search is over.\n');
}

async function findTarget(context: Context, state: BisectState, revision: string | undefined): Promise<CheckpointId> {
  const workspace = await context.workspace();
  if (revision !== undefined) return (await resolveRevision(workspace, revision)).id;
  const bisection = await open(context, state);
  const next = bisection?.next();
  const id = next === undefined ? undefined : bisection?.checkpoints[next]?.id;
  return id ?? (await resolveRevision(workspace, '@')).id;
}

/** A bad one before all bad ones, or a good one after all good ones, are the new ends. */
function withVerdict(state: BisectState, id: CheckpointId, verdict: Verdict): BisectState {
  if (verdict === 'bad' && state.badId === undefined) return { ...state, badId: id };
  if (verdict === 'good' && state.goodId === undefined) return { ...state, goodId: id };
  return { ...state, verdicts: [...state.verdicts.filter(([known]) => known !== id), [id, verdict]] };
}

async function open(context: Context, { goodId, badId, verdicts }: BisectState): Promise<Bisection | undefined> {
  if (goodId === undefined || badId === undefined) return undefined;
  const checkpoints = await readRange(await context.workspace(), `${goodId}..${badId}`, { isClosed: true });
  return new Bisection(checkpoints, [[goodId, 'good'], [badId, 'bad'], ...verdicts]);
}

async function goOn(context: Context, state: BisectState): Promise<undefined> {
  const file = new BisectFile(await context.stateFolder());
  const bisection = await open(context, state); // before it is written down: a wrong range must not stay
  const next = bisection?.next();
  if (bisection !== undefined && next === undefined) {
    const firstBad = bisection.candidates.length === 1 ? bisection.candidates[0] : undefined;
    file.write({ ...state, ...(firstBad !== undefined && { firstBadId: firstBad.id }) });
    return tellResult(context, bisection, { evaluations: state.verdicts.length });
  }
  file.write(state);
  const checkpoint = bisection === undefined || next === undefined ? undefined : bisection.checkpoints[next];
  if (bisection === undefined || checkpoint === undefined) await askForEnds(context, state);
  else await askAbout(context, bisection, toOutput(checkpoint));
}

async function askForEnds(context: Context, { goodId, badId }: BisectState): Promise<void> {
  const missing = [badId === undefined ? 'bad' : '', goodId === undefined ? 'good' : ''].filter((each) => each !== '');
  await context.answer(
    { status: 'waiting', candidates: [] },
    () => `Say which checkpoint is ${missing.join(', and which is ')}: savestate bisect ${missing[0]} <revision>\n`,
  );
}

async function askAbout(context: Context, bisection: Bisection, next: ReturnType<typeof toOutput>): Promise<void> {
  const { candidates, stepsLeft } = bisection;
  await context.answer({ status: 'testing', next, candidates: candidates.map(({ id }) => id), stepsLeft }, () => {
    const count = `${candidates.length} left, about ${stepsLeft} more looks`;
    return `Look at ${formatLine(next, context.terminal.style)} (${count})\n`;
  });
  context.say(`See it: savestate show ${next.id}    Then say: savestate bisect good, bad or skip`);
}
