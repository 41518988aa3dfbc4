import { formatStorageAddress } from '../../../storage/open/address.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import { formatCount, formatSize, formatSparkline, formatTable, formatTime } from '../../terminal/format.ts';

/** As many bars as fit beside a label. */
const BARS = 40;

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

async function measure(context: Context) {
  const opened = await context.open();
  const { sessions, checkpoints, tombstones, chunks, bytes } = await opened.manager.stats();
  const work = { noun: 'checkpoints', total: checkpoints };
  const saves: Save[] = [];
  for await (const { header, stateBytes } of context.watch(opened.list({}), work))
    saves.push({ timeMs: header.timestampMs, bytes: stateBytes });
  const growth = toGrowth(saves.sort((one, other) => one.timeMs - other.timeMs));
  const logicalBytes = growth.at(-1)?.logicalBytes ?? 0;
  return {
    storage: formatStorageAddress(await context.address()),
    kind: opened.storage.kind,
    sessions,
    checkpoints,
    tombstones,
    chunks,
    logicalBytes,
    storedBytes: bytes,
    saved: logicalBytes === 0 ? 0 : 1 - bytes / logicalBytes,
    growth,
  };
}

type Save = { readonly timeMs: number; readonly bytes: number };

/** How much there was at the end of each of some equal stretches of time; `saves` are in order of time. */
function toGrowth(saves: readonly Save[]) {
  const [firstMs = 0, lastMs = 0] = [saves[0]?.timeMs, saves.at(-1)?.timeMs];
  const count = Math.min(BARS, saves.length);
  let [checkpoints, logicalBytes] = [0, 0];
  return Array.from({ length: count }, (_, bar) => {
    const untilMs = bar === count - 1 ? lastMs : firstMs + ((lastMs - firstMs) / count) * (bar + 1);
    for (; (saves[checkpoints]?.timeMs ?? Number.POSITIVE_INFINITY) <= untilMs; checkpoints++)
      logicalBytes += saves[checkpoints]?.bytes ?? 0;
    return { until: new Date(untilMs).toISOString(), checkpoints, logicalBytes };
  });
}

function format({ saved, growth, ...stats }: Awaited<ReturnType<typeof measure>>): string {
  const saving =
    saved >= 0 ? `${(saved * 100).toFixed(1)} % saved by sharing` : 'small storages have more overhead than content';
  const counts = [
    `${formatCount(stats.checkpoints, 'checkpoint')} of ${formatCount(stats.sessions, 'session')}`,
    formatCount(stats.tombstones, 'tombstone'),
    formatCount(stats.chunks, 'chunk'),
  ];
  return formatTable([
    ['storage', stats.storage],
    ['holds', counts.join(', ')],
    ['logical', formatSize(stats.logicalBytes)],
    ['stored', `${formatSize(stats.storedBytes)} (${saving})`],
    ...describeGrowth(growth),
  ]);
}

function describeGrowth(growth: ReturnType<typeof toGrowth>): string[][] {
  const [first, last] = [growth[0], growth.at(-1)];
  if (first === undefined || last === undefined) return [];
  const times = [first, last].map(({ until }) => formatTime(new Date(until)));
  return [
    ['growth', formatSparkline(growth.map((bar) => bar.logicalBytes))],
    ['', `${times.join(' to ')} UTC, logical bytes`],
  ];
}
