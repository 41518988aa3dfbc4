/** As many bars as fit beside a label. */
const BARS = 40;

/** When something was saved, how large it was, and how much of it was new. */
export type Save = { readonly timeMs: number; readonly bytes: number; readonly uniqueBytes?: number };

/** How much there was at some times, equally far apart, from the first save to the last; `saves` are in order of time. */
export function toGrowth(saves: readonly Save[]) {
  const [firstMs = 0, lastMs = 0] = [saves[0]?.timeMs, saves.at(-1)?.timeMs];
  const count = Math.min(BARS, saves.length);
  const isWeighed = saves[0]?.uniqueBytes !== undefined;
  let [checkpoints, logicalBytes, uniqueBytes] = [0, 0, 0];
  return Array.from({ length: count }, (_, bar) => {
    const untilMs = bar === count - 1 ? lastMs : firstMs + ((lastMs - firstMs) / (count - 1)) * bar;
    for (let next = saves[checkpoints]; next !== undefined && next.timeMs <= untilMs; next = saves[++checkpoints]) {
      logicalBytes += next.bytes;
      uniqueBytes += next.uniqueBytes ?? 0;
    }
    const until = new Date(untilMs).toISOString();
    return { until, checkpoints, logicalBytes, ...(isWeighed && { uniqueBytes }) };
  });
}
