/** Maps items in order with at most `limit` of them under way. */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const runner = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at] as Item);
  };
  const stopping = (error: unknown): never => {
    next = items.length;
    throw error;
  };
  // Every runner is awaited also when one fails: nothing may still be writing when the caller cleans up.
  const outcomes = await Promise.allSettled(
    Array.from({ length: Math.min(limit, items.length) }, () => runner().catch(stopping)),
  );
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return results;
}

/** Runs work of one key one after the other, and of different keys beside each other, up to a limit. */
export class KeyedQueue {
  readonly #limit: number;
  readonly #tails = new Map<string, Promise<unknown>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const result = before.then(() => this.#runBounded(work));
    const tail: Promise<void> = Promise.allSettled([result]).then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    this.#tails.set(key, tail);
    return result;
  }

  async #runBounded<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#limit) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      // The place is handed on, not freed, so that no newcomer slips in between.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
