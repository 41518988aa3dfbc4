import type { ManagerPorts } from '../../../manager/engine/engine.ts';
import { Breather } from '../../../storage/breather.ts';

/** Knows whether anything of a run is under way, so that those who wait for a person can tell that nothing else is left. */
export class Activity {
  readonly #ports: ManagerPorts;
  readonly #limit: number;
  readonly #queue: (() => void)[] = [];
  readonly #resting = new Set<() => void>();
  /** For steps that wait for nothing, on a storage that does not either. */
  readonly #breather = new Breather();
  #running = 0;
  #active = 0;

  constructor(ports: ManagerPorts, { limit }: { readonly limit: number }) {
    this.#ports = ports;
    this.#limit = limit;
  }

  /** Counts as under way until a turn of the event loop after the end: by then what follows has begun. */
  async during<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#active++;
    try {
      return await work();
    } finally {
      setImmediate(() => this.#leave());
    }
  }

  /** Like `during`, and no more than the limit at one time. */
  async inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.during(async () => {
      if (this.#running >= this.#limit) await new Promise<void>((resolve) => this.#queue.push(resolve));
      else this.#running++;
      try {
        await this.#breather.breathe();
        return await work();
      } finally {
        const next = this.#queue.shift();
        if (next === undefined) this.#running--;
        else setImmediate(next); // by then what this one ended with is known
      }
    });
  }

  #leave(): void {
    this.#active--;
    if (this.#active > 0) return;
    for (const wake of this.#resting) wake();
  }

  /** Waits until nothing is under way, but no longer than this; returns whether it is so. */
  async rest(limitMs: number): Promise<boolean> {
    await new Promise<void>((resolve) => setImmediate(resolve)); // what begins beside this one has begun
    if (this.#active > 0) await this.#untilWoken(limitMs);
    return this.#active === 0;
  }

  #untilWoken(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        this.#resting.delete(wake);
        resolve();
      };
      const cancel = this.#ports.setTimer(wake, { delayMs: limitMs, keepsProcessAlive: true });
      this.#resting.add(wake);
    });
  }
}
