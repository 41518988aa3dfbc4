import { backoff } from '../../../core/time/backoff.ts';
import { sleep } from '../../../core/time/timer.ts';
import type { ManagerPorts } from '../../../manager/engine/ports.ts';

const FIRST_PAUSE_MS = 4;
const MAX_PAUSE_MS = 250;

/** Stores never disagree on an item, so a batch waits its turn; only a storage that refuses everything takes this long. */
const MAX_WAIT_MS = 60_000;

/** How long one batch waited for others. */
export class Contention {
  readonly #ports: ManagerPorts;
  #tries = 0;
  #waitedMs = 0;

  constructor(ports: ManagerPorts) {
    this.#ports = ports;
  }

  /** Pauses, longer each time and never quite as long as others do; answers false if that went on for too long. */
  async pause(): Promise<boolean> {
    if (this.#waitedMs > MAX_WAIT_MS) return false;
    const limitMs = backoff(++this.#tries, { firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
    const delayMs = limitMs * Math.random();
    this.#waitedMs += delayMs;
    await sleep(this.#ports, delayMs);
    return true;
  }
}
