import type { SetTimer } from '../../manager/ports.ts';

/** Wakes one waiter: when told to, or at a time. What is told while nobody waits is not forgotten. */
export class Alarm {
  readonly #ports: { readonly now: () => number; readonly setTimer: SetTimer };
  #isRung = false;
  #wake: (() => void) | undefined;

  constructor(ports: { readonly now: () => number; readonly setTimer: SetTimer }) {
    this.#ports = ports;
  }

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Resolves at the next ring, or at `untilMs`. The caller looks for itself what there is to do. */
  async wait(untilMs = Infinity): Promise<void> {
    const { now, setTimer } = this.#ports;
    const delayMs = untilMs - now();
    if (!this.#isRung && delayMs > 0) {
      await new Promise<void>((resolve) => {
        const cancel =
          delayMs === Infinity ? () => undefined : setTimer(() => this.#wake?.(), { delayMs, keepsProcessAlive: true });
        this.#wake = () => {
          cancel();
          resolve();
        };
      });
      this.#wake = undefined;
    }
    this.#isRung = false;
  }
}
