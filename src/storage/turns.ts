import { setImmediate as nextTurn } from 'node:timers/promises';

/** Far below what timers, leases and servers in the same process notice. */
const TURN_MS = 20;

/** Lets the event loop turn during long work. Call `pass` between small pieces of it: most calls cost a look at the clock. */
export class Turns {
  #sinceMs = performance.now();

  /** Resolves at once, or after a turn of the event loop if the work has held it for a while. */
  async pass(): Promise<void> {
    if (performance.now() - this.#sinceMs < TURN_MS) return;
    await nextTurn();
    this.#sinceMs = performance.now();
  }
}
