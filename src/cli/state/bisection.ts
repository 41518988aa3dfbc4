import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { BisectVerdict } from '../place/own-files.ts';

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
