/** Taken when this is loaded: tests of our users replace their timers, and a save must not hang on those. */
const MOMENTS = { tick: process.nextTick, turn: setImmediate };

/** When work may begin that should hold up nobody. */
type LullOptions = {
  /** The `tick` when all that is ready to run has run, or the `turn` of the event loop, by which others may have brought more. */
  readonly until: keyof typeof MOMENTS;
  /** How many hops of promises it waits at most. Absent: any number. */
  readonly hops?: number;
};

/** Lets work wait for a moment when it holds up nobody. */
export class Lull {
  readonly #options: LullOptions;
  #isDue = false;
  #next: Promise<boolean> | undefined;
  #end: ((isHurried: boolean) => void) | undefined;

  constructor(options: LullOptions) {
    this.#options = options;
  }

  /** Resolves with `false` when the moment has come, or with `true` if there was no time to wait for it. */
  wait(): Promise<boolean> {
    if (this.#next !== undefined) return this.#next;
    this.#next = new Promise((resolve) => {
      this.#end = resolve;
    });
    if (!this.#isDue) MOMENTS[this.#options.until](() => this.#arrive());
    this.#isDue = true;
    if (this.#options.hops !== undefined) void this.#countHops(this.#next, this.#options.hops);
    return this.#next;
  }

  /** Lets what waits go on now. */
  hurry(): void {
    this.#finish(true);
  }

  #arrive(): void {
    this.#isDue = false;
    this.#finish(false);
  }

  async #countHops(waited: Promise<boolean>, limit: number): Promise<void> {
    for (let hop = 0; hop < limit; hop++) {
      await undefined;
      if (this.#next !== waited) return;
    }
    this.hurry();
  }

  #finish(isHurried: boolean): void {
    this.#end?.(isHurried);
    this.#end = undefined;
    this.#next = undefined;
  }
}
