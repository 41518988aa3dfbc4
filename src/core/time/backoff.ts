type Backoff = { readonly firstMs: number; readonly maxMs: number; readonly factor?: number };

/** The pause after so many failures: the first one, then `factor` (2) times as long each time, never longer than the longest. */
export function backoff(failures: number, { firstMs, maxMs, factor = 2 }: Backoff): number {
  return Math.min(maxMs, firstMs * factor ** Math.max(0, failures - 1));
}

/** Between half of a pause and all of it, by a number in [0, 1): what failed together must not come back together. */
export function spread(pauseMs: number, random: number): number {
  return pauseMs * (0.5 + random / 2);
}
