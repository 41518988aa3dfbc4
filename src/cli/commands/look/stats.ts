import { formatStorageAddress } from '../../../storage/open/address.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import type { Output } from '../../base/output-schemas.ts';
import { formatCount, formatSize, formatSparkline, formatTime } from '../../terminal/format.ts';
import { formatTable } from '../../terminal/table.ts';

type Stats = Output<'stats'>;

/** As many bars as fit beside a label. */
const BUCKETS = 40;

/** Shows how much is stored. */
export const command: Command = {
  examples: [
    ['savestate stats', 'counts, sizes and growth'],
    ['savestate stats --json', 'the same for a script'],
  ],
  run: async (context) => {
    const stats = await measure(context);
    return context.answer(stats, () => format(stats));
  },
};

async function measure(context: Context): Promise<Stats> {
  const workspace = await context.workspace();
  const counted = await workspace.manager.stats();
  const saves: { timeMs: number; bytes: number }[] = [];
  const work = { noun: 'checkpoints', total: counted.checkpoints };
  for await (const { header, stateBytes } of context.watch(workspace.list({}, 'oldest'), work))
    saves.push({ timeMs: header.timestampMs, bytes: stateBytes });
  const logicalBytes = saves.reduce((sum, { bytes }) => sum + bytes, 0);
  const { sessions, checkpoints, tombstones, chunks, bytes } = counted;
  return {
    storage: formatStorageAddress(await context.address()),
    kind: workspace.storage.kind,
    sessions,
    checkpoints,
    tombstones,
    chunks,
    logicalBytes,
    storedBytes: bytes,
    saved: logicalBytes === 0 ? 0 : 1 - bytes / logicalBytes,
    growth: toGrowth(saves),
  };
}

/** How much there was at the end of each of some equal stretches of time. */
function toGrowth(saves: readonly { readonly timeMs: number; readonly bytes: number }[]): Stats['growth'] {
  const times = saves.map(({ timeMs }) => timeMs);
  const firstMs = times.reduce((least, timeMs) => Math.min(least, timeMs), Number.POSITIVE_INFINITY);
  const lastMs = times.reduce((greatest, timeMs) => Math.max(greatest, timeMs), 0);
  if (saves.length === 0) return [];
  const count = Math.min(BUCKETS, saves.length);
  const stepMs = Math.max(1, (lastMs - firstMs) / count);
  const growth = Array.from({ length: count }, (_, at) => ({
    until: new Date(at === count - 1 ? lastMs : firstMs + stepMs * (at + 1)).toISOString(),
    checkpoints: 0,
    logicalBytes: 0,
  }));
  for (const { timeMs, bytes } of saves) {
    const bucket = growth[Math.min(count - 1, Math.floor((timeMs - firstMs) / stepMs))];
    if (bucket === undefined) continue;
    bucket.checkpoints++;
    bucket.logicalBytes += bytes;
  }
  return accumulate(growth);
}

function accumulate(growth: Stats['growth']): Stats['growth'] {
  let [checkpoints, logicalBytes] = [0, 0];
  return growth.map((bucket) => {
    checkpoints += bucket.checkpoints;
    logicalBytes += bucket.logicalBytes;
    return { until: bucket.until, checkpoints, logicalBytes };
  });
}

function format(stats: Stats): string {
  const { growth, logicalBytes, storedBytes, saved } = stats;
  const saving =
    saved >= 0 ? `${(saved * 100).toFixed(1)} % saved by sharing` : 'small storages have more overhead than content';
  const rows = [
    ['storage', stats.storage],
    [
      'holds',
      `${formatCount(stats.checkpoints, 'checkpoint')} of ${formatCount(stats.sessions, 'session')}, ${formatCount(stats.tombstones, 'tombstone')}, ${formatCount(stats.chunks, 'chunk')}`,
    ],
    ['logical', formatSize(logicalBytes)],
    ['stored', `${formatSize(storedBytes)} (${saving})`],
  ];
  const [first, last] = [growth[0], growth.at(-1)];
  if (first !== undefined && last !== undefined) {
    rows.push(['growth', formatSparkline(growth.map((bucket) => bucket.logicalBytes))]);
    rows.push(['', `${formatTime(new Date(first.until))} to ${formatTime(new Date(last.until))} UTC, logical bytes`]);
  }
  return formatTable(rows);
}
