import { MAX_DELAY_MS, type SetTimer } from '../../core/time/timer.ts';

type Grid = { readonly startMs: number; readonly everyMs: number };

/** The first point of a grid after a moment. Points do not move, however late one is noticed. */
export function nextPoint({ startMs, everyMs }: Grid, nowMs: number): number {
  const passed = Math.floor((nowMs - startMs) / everyMs);
  return startMs + (passed + 1) * everyMs;
}

/** Timers and clocks do not go alike; a point is met if it is missed by no more than this part of the interval. */
const EARLY_PART = 0.01;
/** Both are rounded to a millisecond. */
const EARLY_MS = 2;

/**
 * Calls a function at every point of a grid; points missed together are one call. Each wait is no longer than the interval,
 * and what was waited for counts even if the clock was set back meanwhile: the call after it is on the grid again.
 * Answers how to stop.
 */
export function onEveryPoint(
  { now, setTimer }: { readonly now: () => number; readonly setTimer: SetTimer },
  grid: Grid,
  run: () => void,
): () => void {
  let cancel = (): void => undefined;
  const wait = (dueMs: number): void => {
    const delayMs = Math.min(dueMs - now(), MAX_DELAY_MS);
    cancel = setTimer(() => arrive(dueMs), { delayMs, keepsProcessAlive: true });
  };
  const arrive = (dueMs: number): void => {
    const earlyMs = dueMs - now();
    const isMet = earlyMs > 0 && earlyMs <= Math.max(EARLY_MS, grid.everyMs * EARLY_PART);
    wait(nextPoint(grid, isMet ? dueMs : now()));
    run();
  };
  wait(nextPoint(grid, now()));
  return () => cancel();
}
