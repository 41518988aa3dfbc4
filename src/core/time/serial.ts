/** Does one piece of work after the other, in the order they were given; one that fails does not hold up the next. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  run<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}
