/** Calls `end` when the moment has come that work waits for. `isOver` says whether somebody was in a hurry meanwhile. */
type AwaitMoment = (end: () => void, isOver: () => boolean) => void;

/** Lets work wait for a moment when it holds up nobody. */
export class Lull {
  readonly #awaitMoment: AwaitMoment;
  #next: Promise<void> | undefined;
  #end: (() => void) | undefined;

  constructor(awaitMoment: AwaitMoment) {
    this.#awaitMoment = awaitMoment;
  }

  /** Resolves when the moment has come, or when somebody is in a hurry. All who wait go on together. */
  wait(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    const waited = new Promise<void>((resolve) => {
      this.#end = resolve;
    });
    this.#next = waited;
    this.#awaitMoment(
      () => this.hurry(),
      () => this.#next !== waited,
    );
    return waited;
  }

  /** Lets what waits go on now. */
  hurry(): void {
    this.#end?.();
    this.#end = undefined;
    this.#next = undefined;
  }
}
