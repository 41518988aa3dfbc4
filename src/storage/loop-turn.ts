/** An event loop that has not turned for this long may not turn for a long time: work no longer waits for it then. */
const STUCK_MS = 10;

/** Lets work wait until whoever asked for it waits too: until the event loop turns. */
export class LoopTurn {
  #immediate: NodeJS.Immediate | undefined;
  #waitingSinceMs = 0;
  #next: Promise<void> | undefined;
  #end = (): void => undefined;

  /** Resolves when the event loop has turned, or when it is stuck and somebody is in a hurry. */
  wait(): Promise<void> {
    if (this.#immediate === undefined) {
      this.#waitingSinceMs = performance.now();
      this.#immediate = setImmediate(() => {
        this.#immediate = undefined;
        this.#end();
      });
    }
    this.#next ??= new Promise((resolve) => {
      this.#end = () => {
        this.#next = undefined;
        resolve();
      };
    });
    return this.#next;
  }

  /** Waits no longer if the event loop is stuck. */
  hurry(): void {
    if (this.#immediate !== undefined && performance.now() - this.#waitingSinceMs > STUCK_MS) this.#end();
  }
}
