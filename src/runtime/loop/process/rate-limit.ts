/** How often something may happen. */
export type RateLimitOptions = {
  /** Not again before this time has passed. */
  readonly cooldownMs: number;
  /** At most this often within `windowMs`. */
  readonly max: number;
  readonly windowMs: number;
};

/** Says whether something may happen again, from when it happened before. */
export class RateLimit {
  readonly #options: RateLimitOptions;
  #timesMs: readonly number[];

  constructor(options: RateLimitOptions, timesMs: readonly number[] = []) {
    this.#options = options;
    this.#timesMs = timesMs.toSorted((a, b) => a - b);
  }

  /** When it happened, within the window. What the clock, set back since, says is yet to come, counts as just now. */
  timesMs(nowMs: number): readonly number[] {
    this.#timesMs = this.#timesMs
      .map((timeMs) => Math.min(timeMs, nowMs))
      .filter((timeMs) => nowMs - timeMs < this.#options.windowMs);
    return this.#timesMs;
  }

  isUsedUp(nowMs: number): boolean {
    return this.timesMs(nowMs).length >= this.#options.max;
  }

  /** Until when it has to rest, as of the last look at the times; in the past if it need not. */
  restsUntilMs(): number {
    return (this.#timesMs.at(-1) ?? -Infinity) + this.#options.cooldownMs;
  }

  isAllowed(nowMs: number): boolean {
    return !this.isUsedUp(nowMs) && nowMs >= this.restsUntilMs();
  }

  note(nowMs: number): void {
    this.#timesMs = [...this.timesMs(nowMs), nowMs];
  }
}
