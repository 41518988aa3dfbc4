import { ClosedError } from '../../../core/errors.ts';
import { isInsideOperation } from './turn-draft.ts';

/** How a turn ends: nothing else begins, and what is under way is waited for, so that another attempt finds it recorded. */
export class TurnEnd {
  readonly #open = new Set<Promise<unknown>>();
  #isEnding = false;
  #isGivenUp = false;
  /** Ends the waiting: the turn's time is up, or the loop stops. */
  giveUp: () => void = () => undefined;
  readonly #givenUp = new Promise<void>((resolve) => {
    this.giveUp = () => {
      this.#isGivenUp = true;
      resolve();
    };
  });
  isOver = false;

  get isEnding(): boolean {
    return this.#isEnding;
  }

  /** An operation that is under way when the turn ends goes on to its own end. */
  get isClosed(): boolean {
    return this.isOver || (this.#isEnding && !isInsideOperation());
  }

  /** Does what the turn has to wait for, unless it has ended. */
  async during<Result>(name: string, run: () => Promise<Result>): Promise<Result> {
    if (this.isClosed)
      throw new ClosedError(
        `The turn has ended, so "${name}" was not done. Await all that a turn does before it ends.`,
      );
    const work = run();
    this.#open.add(work);
    return work.finally(() => this.#open.delete(work));
  }

  /** Reads the state, also while the turn ends: the agent may have put guarded parts of it into others. */
  read<Result>(read: () => Result): Result {
    const isEnding = this.#isEnding;
    this.#isEnding = false;
    try {
      return read();
    } finally {
      this.#isEnding = isEnding;
    }
  }

  /** The agent has done its part. */
  async settled(): Promise<void> {
    this.#isEnding = true;
    while (this.#open.size > 0 && !this.#isGivenUp) await Promise.race([Promise.allSettled(this.#open), this.#givenUp]);
  }
}
