import { MAX_DELAY_MS, type SetTimer } from '../../core/time/timer.ts';

/**
 * Wakes one waiter when told to; what is told while nobody waits is not forgotten. Says how long it has to rest, which is
 * measured by timers and not by the clock: that may be set back meanwhile, and a rest of a second would last for hours.
 */
export class Alarm {
  readonly #setTimer: SetTimer;
  readonly #rests = new Set<() => void>();
  #isRung = false;
  #isStopped = false;
  #wake: (() => void) | undefined;

  constructor({ setTimer }: { readonly setTimer: SetTimer }) {
    this.#setTimer = setTimer;
  }

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Rings, and lets nobody rest any more. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#rests) cancel();
    this.#rests.clear();
    this.ring();
  }

  /** Whether a rest is not over yet. */
  get isResting(): boolean {
    return this.#rests.size > 0;
  }

  /** Begins a rest and rings at its end. Of several, the longest counts. */
  rest(durationMs: number): void {
    if (this.#isStopped || !(durationMs > 0)) return;
    const end = (): void => {
      this.#rests.delete(cancel);
      this.ring();
    };
    const cancel = this.#setTimer(end, { delayMs: Math.min(durationMs, MAX_DELAY_MS), keepsProcessAlive: true });
    this.#rests.add(cancel);
  }

  /** Resolves at the next ring. The caller looks for itself what there is to do. */
  async wait(): Promise<void> {
    if (!this.#isRung) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#isRung = false;
  }
}
