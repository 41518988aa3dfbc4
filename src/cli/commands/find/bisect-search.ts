import { InvalidInputError } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { toJsonForm } from '../../../view/json-form.ts';
import type { CommandInput, Context } from '../../base/command.ts';
import { isInterrupt } from '../../base/exit-code.ts';
import type { BisectVerdict } from '../../place/own-files.ts';
import { Expression } from '../../state/expression.ts';
import { askCommand, STOP } from './ask-command.ts';

/** Says whether a checkpoint is good or bad. */
type BisectTest = (checkpoint: Checkpoint) => Promise<BisectVerdict>;

const SKIP = 125;
/** Looks at others, to see whether it turns more than once. */
const PROBES = 6;

/** The test that was asked for: an expression that is true where it is bad, or a command. */
export async function createTest(context: Context, input: CommandInput): Promise<BisectTest> {
  const { manager } = await context.open();
  const [where, words] = [input.text('where'), input.words.slice(1)];
  if ((where === undefined) === (words.length === 0))
    throw new InvalidInputError(`Say what is bad, with either --where '<expression>', or a command after --.`);
  if (where === undefined) return testByCommand(context, manager, words);
  const expression = new Expression(where);
  return async (checkpoint) => ((await expression.isTrue(manager, checkpoint)) ? 'bad' : 'good');
}

/** Runs a command with the state as JSON on its standard input. It exits as for jj: 0 good, 125 skip, 127 stop, else bad. */
function testByCommand(context: Context, manager: CheckpointManager, words: readonly string[]): BisectTest {
  const [program] = words;
  return async ({ id }) => {
    const code = await askCommand(context, words, {
      input: toJsonForm(await manager.load(id)) ?? null,
      variables: { SAVESTATE_BISECT_TARGET: id },
      signal: context.signal,
    }).catch((cause: unknown) => {
      throw isInterrupt(cause) ? cause : new InvalidInputError(`The command ${program} cannot be run.`, { cause });
    });
    if (code === 0) return 'good';
    if (typeof code === 'number' && code !== STOP) return code === SKIP ? 'skip' : 'bad';
    throw new InvalidInputError(`The command ${program} stopped the search at ${id} (${code}).`, { details: { id } });
  };
}

/** One search; counts what was looked at. */
export class Search {
  readonly bisection: Bisection;
  readonly #context: Context;
  readonly #test: BisectTest;
  evaluations = 0;

  constructor(context: Context, bisection: Bisection, test: BisectTest) {
    this.#context = context;
    this.bisection = bisection;
    this.#test = test;
  }

  /** Looks at both ends, halves what is between until one is left, then looks around, and again if that showed an earlier one. Returns whether the last one is bad. */
  async bisect(isGivenRange: boolean): Promise<boolean> {
    const { checkpoints } = this.bisection;
    if ((await this.#look(checkpoints.length - 1)) !== 'bad') return false;
    if ((await this.#look(0)) === 'bad' && isGivenRange && checkpoints.length > 1)
      throw new InvalidInputError(
        `The range starts with ${checkpoints[0]?.id}, which is already bad. Start it earlier.`,
      );
    await this.#halve();
    await this.#probe();
    await this.#halve();
    return true;
  }

  async #halve(): Promise<void> {
    for (let at = this.bisection.nextAt; at !== undefined; at = this.bisection.nextAt) await this.#look(at);
  }

  /** Looks at some others, evenly spread: a bisection alone cannot see that good and bad alternate. */
  async #probe(): Promise<void> {
    const { length } = this.bisection.checkpoints;
    const { firstBad, lastGood } = this.bisection.result;
    const places = Array.from({ length: PROBES }, (_, at) => Math.floor(((at + 1) * length) / (PROBES + 1)));
    for (const at of new Set(places)) if (at < lastGood || at > firstBad) await this.#look(at);
  }

  /** Looks at all; returns whether one is bad. */
  async scan(): Promise<boolean> {
    const { checkpoints } = this.bisection;
    const work = { noun: 'checkpoints', total: checkpoints.length };
    for await (const at of this.#context.watch(checkpoints.keys(), work)) await this.#look(at);
    return checkpoints.some((_, at) => this.bisection.verdictAt(at) === 'bad');
  }

  async #look(at: number): Promise<BisectVerdict> {
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

/** Where good turns bad, or bad good. */
type Flip = { readonly checkpointId: CheckpointId; readonly sequence: number; readonly to: 'good' | 'bad' };

/**
 * Looks for the first bad checkpoint of a history, oldest first, whose first one is known to be good and whose last one is
 * known to be bad. If good and bad alternate, it finds one of the places where good turns bad.
 */
export class Bisection {
  readonly checkpoints: readonly Checkpoint[];
  readonly #verdicts: Map<CheckpointId, BisectVerdict>;

  constructor(checkpoints: readonly Checkpoint[], verdicts: Iterable<readonly [CheckpointId, BisectVerdict]> = []) {
    this.checkpoints = checkpoints;
    this.#verdicts = new Map(verdicts);
  }

  set(id: CheckpointId, verdict: BisectVerdict): void {
    this.#verdicts.set(id, verdict);
  }

  verdictAt(at: number): BisectVerdict | undefined {
    const id = this.checkpoints[at]?.id;
    return id === undefined ? undefined : this.#verdicts.get(id);
  }

  /** The last good one before the first bad one, as far as is known; -1 if the very first one is bad. */
  get result(): { readonly lastGood: number; readonly firstBad: number } {
    const bad = this.checkpoints.findIndex((_, at) => this.verdictAt(at) === 'bad');
    const firstBad = bad < 0 ? this.checkpoints.length - 1 : bad;
    let lastGood = firstBad - 1;
    while (lastGood > 0 && this.verdictAt(lastGood) !== 'good') lastGood--;
    return { lastGood, firstBad };
  }

  /** Those that may be the first bad one. */
  get candidates(): readonly Checkpoint[] {
    const { lastGood, firstBad } = this.result;
    return this.checkpoints.slice(lastGood + 1, firstBad + 1);
  }

  /** The one that is left of them. */
  get found(): Checkpoint | undefined {
    const [first, second] = this.candidates;
    return second === undefined ? first : undefined;
  }

  /** The one before the first bad one, as far as is known. */
  get lastGood(): Checkpoint | undefined {
    return this.checkpoints[this.result.lastGood];
  }

  get next(): Checkpoint | undefined {
    return this.checkpoints[this.nextAt ?? -1];
  }

  /** The one to look at next: nearest to the middle of what is open; undefined if all is known. */
  get nextAt(): number | undefined {
    const { lastGood, firstBad } = this.result;
    const middle = (lastGood + firstBad) / 2;
    const open = this.checkpoints
      .map((_, at) => at)
      .filter((at) => at > lastGood && at < firstBad && this.verdictAt(at) === undefined);
    return open.toSorted((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0];
  }

  /** How many more must be looked at, at most. */
  get stepsLeft(): number {
    const { lastGood, firstBad } = this.result;
    return Math.ceil(Math.log2(Math.max(1, firstBad - lastGood)));
  }

  /** Where good turns bad or bad good, among those that were looked at. One is what a bisection counts on. */
  flips(): Flip[] {
    const flips: Flip[] = [];
    let before: BisectVerdict | undefined;
    for (const { id, sequence } of this.checkpoints) {
      const verdict = this.#verdicts.get(id);
      if (verdict === undefined || verdict === 'skip') continue;
      if (before !== undefined && verdict !== before) flips.push({ checkpointId: id, sequence, to: verdict });
      before = verdict;
    }
    return flips;
  }
}
