import type { SetTimer } from '../../manager/ports.ts';

/** The first point of a grid after a moment. Points do not move, however late one is noticed. */
export function nextPoint(grid: { readonly startMs: number; readonly everyMs: number }, nowMs: number): number {
  const passed = Math.floor((nowMs - grid.startMs) / grid.everyMs);
  return grid.startMs + (passed + 1) * grid.everyMs;
}

/** Calls a function at every point of a grid; points missed together are one call. Answers how to stop. */
export function onEveryPoint(
  { now, setTimer }: { readonly now: () => number; readonly setTimer: SetTimer },
  grid: { readonly startMs: number; readonly everyMs: number },
  run: () => void,
): () => void {
  let cancel = (): void => undefined;
  const wait = (dueMs: number): void => {
    cancel = setTimer(() => arrive(dueMs), { delayMs: dueMs - now(), keepsProcessAlive: true });
  };
  const arrive = (dueMs: number): void => {
    // A timer may fire a little early by the clock.
    const isDue = now() >= dueMs;
    wait(isDue ? nextPoint(grid, now()) : dueMs);
    if (isDue) run();
  };
  wait(nextPoint(grid, now()));
  return () => cancel();
}
