/** What was begun inside of something that is to end after it. */
export class UnderWay {
  readonly #open = new Set<Promise<unknown>>();

  add<Result>(work: Promise<Result>): Promise<Result> {
    this.#open.add(work);
    return work.finally(() => this.#open.delete(work));
  }

  /** Resolves when nothing is under way any more, whatever came of it. */
  async settled(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
  }
}
