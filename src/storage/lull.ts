/** Taken when this is loaded: tests of our users replace their timers, and a save must not hang on those. */
const onTurn = setImmediate;

/** How long work waits: for the `turn` of the event loop, by which others may have brought more, or for so many hops of promises. */
type LullOptions = { readonly until: 'turn' } | { readonly hops: number };

/** Lets work wait for a moment when it holds up nobody. */
export class Lull {
  readonly #options: LullOptions;
  #isDue = false;
  #next: Promise<void> | undefined;
  #end: (() => void) | undefined;

  constructor(options: LullOptions) {
    this.#options = options;
  }

  /** Resolves when the moment has come, or when somebody is in a hurry. All who wait go on together. */
  wait(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    this.#next = new Promise((resolve) => {
      this.#end = resolve;
    });
    if ('hops' in this.#options) void this.#countHops(this.#next, this.#options.hops);
    else this.#awaitTurn();
    return this.#next;
  }

  /** Lets what waits go on now. */
  hurry(): void {
    this.#end?.();
    this.#end = undefined;
    this.#next = undefined;
  }

  #awaitTurn(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    onTurn(() => {
      this.#isDue = false;
      this.hurry();
    });
  }

  async #countHops(waited: Promise<void>, hops: number): Promise<void> {
    for (let hop = 0; hop < hops; hop++) {
      await undefined;
      if (this.#next !== waited) return;
    }
    this.hurry();
  }
}
