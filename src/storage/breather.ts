import { setImmediate } from 'node:timers/promises';

/** A turn of the event loop waits for no more than this, and what one step takes besides. */
const MAX_BUSY_MS = 20;

/** Lets timers, sockets and leases have their turn during a long piece of work. */
export class Breather {
  #sinceMs = performance.now();

  /** Whether the event loop has waited for some time. To ask before breathing is cheaper where steps are tiny. */
  get isDue(): boolean {
    return performance.now() - this.#sinceMs >= MAX_BUSY_MS;
  }

  /** Does a piece of work for each item, with turns of the event loop in between. */
  async each<Item>(items: Iterable<Item>, work: (item: Item) => void): Promise<void> {
    for (const item of items) {
      work(item);
      if (this.isDue) await this.breathe();
    }
  }

  /** Resolves at once, or, if the event loop has waited for some time, after it had its turn. */
  async breathe(): Promise<void> {
    if (!this.isDue) return;
    await setImmediate();
    this.#sinceMs = performance.now();
  }
}
