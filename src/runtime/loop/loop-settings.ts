import { withoutUndefined } from '../../core/defined.ts';
import { delayFrom, type Optional, options } from '../../core/options.ts';
import { backoff } from '../../core/time/backoff.ts';

/** When the loop does what; all of it has defaults. */
export type LoopSettings = {
  /** Between routine checkpoints: 30 minutes. */
  readonly routineEveryMs: number;
  /** From the start of a run, or the last refresh, to the next refresh: 2 hours. */
  readonly refreshEveryMs: number;
  /** A turn that takes longer is aborted, and if it does not end then, the heartbeat stops: 10 minutes. */
  readonly turnTimeoutMs: number;
  /** Failures of a message, or of the task in a row, until it is given up: 3. */
  readonly maxFailures: number;
  /** The rest after a failure; doubles with each, up to a minute: 1 second. */
  readonly retryDelayMs: number;
  /** Between two restores after drift: 10 minutes. */
  readonly restoreCooldownMs: number;
  /** Restores after drift within a day; the next drift escalates: 3. */
  readonly maxRestoresPerDay: number;
};

export const MINUTE_MS = 60_000;

/** What holds where nothing else is said. */
export const DEFAULT_SETTINGS: LoopSettings = Object.freeze({
  routineEveryMs: 30 * MINUTE_MS,
  refreshEveryMs: 120 * MINUTE_MS,
  turnTimeoutMs: 10 * MINUTE_MS,
  maxFailures: 3,
  retryDelayMs: 1000,
  restoreCooldownMs: 10 * MINUTE_MS,
  maxRestoresPerDay: 3,
});

/** The longest rest between two tries. */
const MAX_RETRY_DELAY_MS = MINUTE_MS;

/** Accepts settings; each is a number that a timer can wait for. */
export const loopSettings = options(
  Object.fromEntries(Object.keys(DEFAULT_SETTINGS).map((setting) => [setting, delayFrom(1)])),
);

/** Fills in defaults. */
export function readSettings(given: Optional<LoopSettings> = {}): LoopSettings {
  return { ...DEFAULT_SETTINGS, ...withoutUndefined(given) };
}

/** How long to rest after so many failures in a row. */
export function retryDelayMs({ retryDelayMs: firstMs }: LoopSettings, failures: number): number {
  return backoff(failures, { firstMs, maxMs: Math.max(firstMs, MAX_RETRY_DELAY_MS) });
}
