import { InvalidInputError } from '../../../../core/errors.ts';
import type { CommandInput } from '../../../base/command-input.ts';
import type { Context } from '../../../base/context.ts';
import { EXIT, type ExitCode } from '../../../base/exit-code.ts';
import { BisectFile, type Verdict } from '../../../place/bisect-file.ts';
import { readRange } from '../../../revision/resolve-revision.ts';
import { type BisectTest, testByCommand, testByExpression } from '../../../state/bisect-test.ts';
import { Bisection } from '../../../state/bisection.ts';
import { Expression } from '../../../state/expression.ts';
import { formatCount } from '../../../terminal/format.ts';
import { tellResult } from './result.ts';

const DEFAULT_PROBES = 6;

/** Searches with a command or an expression that says what is good and what is bad. */
export async function run(context: Context, input: CommandInput): Promise<ExitCode | undefined> {
  const file = new BisectFile(await context.stateFolder());
  const range = input.text('range') ?? rangeOf(file) ?? '@';
  const checkpoints = await readRange(await context.workspace(), range, { isClosed: true });
  const search = new Search(context, new Bisection(checkpoints), await createTest(context, input));
  const isScan = input.flag('scan');
  const hasBad = isScan ? await search.scan() : await search.checkEnds(range.includes('..'));
  if (!hasBad) return tellNothing(context, search, isScan);
  if (!isScan) await search.bisect(input.count('probe') ?? DEFAULT_PROBES);
  return tellFound(context, search, { file, verb: input.flag('findGood') ? 'good' : 'bad' });
}

async function tellFound(
  context: Context,
  { bisection, evaluations }: Search,
  { file, verb }: { readonly file: BisectFile; readonly verb: 'good' | 'bad' },
): Promise<ExitCode | undefined> {
  const [firstBad] = bisection.candidates;
  const isFound = bisection.candidates.length === 1 && firstBad !== undefined;
  if (isFound) file.write({ ...(file.read() ?? { verdicts: [] }), firstBadId: firstBad.id });
  await tellResult(context, bisection, { evaluations, verb });
  return isFound ? undefined : EXIT.partial;
}

function rangeOf(file: BisectFile): string | undefined {
  const { goodId, badId } = file.read() ?? {};
  return goodId === undefined || badId === undefined ? undefined : `${goodId}..${badId}`;
}

async function createTest(context: Context, input: CommandInput): Promise<BisectTest> {
  const { manager } = await context.workspace();
  const where = input.text('where');
  const words = input.words.slice(1);
  if ((where === undefined) === (words.length === 0))
    throw new InvalidInputError(`Say what is bad: either --where '<expression>', or a command after --.`);
  const test =
    where === undefined
      ? testByCommand(manager, words, { env: { ...context.env }, signal: context.signal })
      : testByExpression(manager, new Expression(where));
  return input.flag('findGood') ? async (checkpoint) => invert(await test(checkpoint)) : test;
}

function invert(verdict: Verdict): Verdict {
  if (verdict === 'skip') return verdict;
  return verdict === 'good' ? 'bad' : 'good';
}

async function tellNothing(context: Context, { bisection, evaluations }: Search, isScan: boolean): Promise<ExitCode> {
  const result = { status: 'no-bad', candidates: [], evaluations, isMonotone: true, flips: [] };
  const all = formatCount(bisection.checkpoints.length, 'checkpoint');
  await context.answer(
    result,
    () => `${isScan ? 'None' : 'The last'} of these ${all} is ${isScan ? '' : 'not '}bad.\n`,
  );
  if (!isScan) context.say('To look at every one of them: savestate bisect run --scan');
  return EXIT.notFound;
}

/** One search; counts what was looked at. */
class Search {
  readonly bisection: Bisection;
  readonly #context: Context;
  readonly #test: BisectTest;
  evaluations = 0;

  constructor(context: Context, bisection: Bisection, test: BisectTest) {
    this.#context = context;
    this.bisection = bisection;
    this.#test = test;
  }

  /** Looks at both ends. Answers whether the last one is bad; if the first one is too, it is what was looked for, or the range is wrong. */
  async checkEnds(isGivenRange: boolean): Promise<boolean> {
    const { checkpoints } = this.bisection;
    if ((await this.#look(checkpoints.length - 1)) !== 'bad') return false;
    if ((await this.#look(0)) === 'bad' && isGivenRange && checkpoints.length > 1)
      throw new InvalidInputError(
        `The range begins with ${checkpoints[0]?.id}, which is bad already. Begin it earlier.`,
      );
    return true;
  }

  /** Halves what is left until one is; then looks around, and again if that showed an earlier one. */
  async bisect(probes: number): Promise<void> {
    await this.#halve();
    await this.#probe(probes);
    await this.#halve();
  }

  async #halve(): Promise<void> {
    for (let at = this.bisection.next(); at !== undefined; at = this.bisection.next()) await this.#look(at);
  }

  /** Looks at some others, evenly spread: a bisection alone cannot see that good and bad alternate. */
  async #probe(count: number): Promise<void> {
    const { length } = this.bisection.checkpoints;
    const { firstBad, lastGood } = this.bisection.result;
    const places = Array.from({ length: count }, (_, at) => Math.floor(((at + 1) * length) / (count + 1)));
    for (const at of new Set(places)) if (at < lastGood || at > firstBad) await this.#look(at);
  }

  /** Looks at all; answers whether one is bad. */
  async scan(): Promise<boolean> {
    const { checkpoints } = this.bisection;
    const work = { noun: 'checkpoints', total: checkpoints.length };
    for await (const at of this.#context.watch(checkpoints.keys(), work)) await this.#look(at);
    return checkpoints.some((_, at) => this.bisection.verdictAt(at) === 'bad');
  }

  async #look(at: number): Promise<Verdict> {
    await this.#context.checkStop();
    const known = this.bisection.verdictAt(at);
    const checkpoint = this.bisection.checkpoints[at];
    if (known !== undefined || checkpoint === undefined) return known ?? 'skip';
    const verdict = await this.#test(checkpoint);
    this.evaluations++;
    this.bisection.set(checkpoint.id, verdict);
    return verdict;
  }
}
