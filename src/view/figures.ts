import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import type { PruneResult } from '../manager/retention/retention-runner.ts';

/** As many bars as fit beside a label. */
const BARS = 40;

/** When something was saved, how large it was, how much of it was new, and where. */
export type Save = {
  readonly timeMs: number;
  readonly bytes: number;
  readonly uniqueBytes?: number;
  readonly paths?: ReadonlyMap<string, number>;
};

/** Where growth is looked at. */
type Span = {
  /** From this time on; default: the first save. */
  readonly fromMs?: number | undefined;
  /** Which paths are told apart. */
  readonly paths?: readonly string[];
};

/** How much there was at some times, equally far apart, up to the last save; `saves` are in order of time. */
export function toGrowth(saves: readonly Save[], { fromMs = 0, paths = [] }: Span = {}) {
  const [oldestMs = 0, lastMs = 0] = [saves[0]?.timeMs, saves.at(-1)?.timeMs];
  const firstMs = Math.min(lastMs, Math.max(oldestMs, fromMs));
  const count = Math.min(BARS, saves.length);
  const isWeighed = saves[0]?.uniqueBytes !== undefined;
  const total = { checkpoints: 0, logicalBytes: 0, uniqueBytes: 0, pathBytes: paths.map(() => 0) };
  return Array.from({ length: count }, (_, bar) => {
    const untilMs = bar === count - 1 ? lastMs : firstMs + ((lastMs - firstMs) / (count - 1)) * bar;
    while ((saves[total.checkpoints]?.timeMs ?? Number.POSITIVE_INFINITY) <= untilMs)
      add(total, saves[total.checkpoints++], paths);
    const { uniqueBytes, pathBytes, ...counted } = total;
    const weighed = isWeighed && { uniqueBytes, ...(paths.length > 0 && { pathBytes: [...pathBytes] }) };
    return { until: new Date(untilMs).toISOString(), ...counted, ...weighed };
  });
}

type Total = { logicalBytes: number; uniqueBytes: number; pathBytes: number[] };

function add(total: Total, save: Save | undefined, paths: readonly string[]): void {
  total.logicalBytes += save?.bytes ?? 0;
  total.uniqueBytes += save?.uniqueBytes ?? 0;
  for (const [n, path] of paths.entries())
    total.pathBytes[n] = (total.pathBytes[n] ?? 0) + (save?.paths?.get(path) ?? 0);
}

/** How much is stored, and how it grew; `list` gives the live checkpoints, and is told how many there are about. */
export async function measureStorage(
  manager: CheckpointManager,
  list: (total: number) => Iterable<Checkpoint> | AsyncIterable<Checkpoint>,
) {
  const { sessions, checkpoints, tombstones, chunks, bytes: storedBytes } = await manager.stats();
  const saves: Save[] = [];
  for await (const { header } of list(checkpoints))
    saves.push({ timeMs: header.timestampMs, bytes: header.stateBytes });
  const logicalBytes = saves.reduce((sum, { bytes }) => sum + bytes, 0);
  const growth = toGrowth(saves.sort((a, b) => a.timeMs - b.timeMs));
  const { kind } = manager.engine.storage;
  return { kind, sessions, checkpoints: saves.length, tombstones, chunks, logicalBytes, storedBytes, growth };
}

/** How many checkpoints retention keeps and drops, for each reason. */
export function countVerdicts({ verdicts }: Pick<PruneResult, 'verdicts'>) {
  const counted = new Map<string, { isKept: boolean; reason: string; checkpoints: number }>();
  for (const { keep: isKept, reason } of verdicts) {
    const key = `${isKept} ${reason}`;
    counted.set(key, { isKept, reason, checkpoints: (counted.get(key)?.checkpoints ?? 0) + 1 });
  }
  const dropped = verdicts.filter(({ keep }) => !keep).length;
  return { kept: verdicts.length - dropped, dropped, reasons: [...counted.values()] };
}
