import { eachCheckpoint } from '../../../manager/branch/history.ts';
import { type Save, toGrowth } from '../../../view/growth.ts';
import type { Command, Context } from '../../base/command.ts';
import { formatAddress } from '../../place/address.ts';
import { formatCount, formatSize, formatSparkline, formatTable, formatTime } from '../../terminal/format.ts';

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
  for await (const { header, stateBytes } of context.watch(eachCheckpoint(opened.manager, {}), work))
    saves.push({ timeMs: header.timestampMs, bytes: stateBytes });
  const growth = toGrowth(saves.sort((one, other) => one.timeMs - other.timeMs));
  const logicalBytes = growth.at(-1)?.logicalBytes ?? 0;
  return {
    storage: formatAddress(await context.address()),
    kind: opened.storage.kind,
    sessions,
    checkpoints,
    tombstones,
    chunks,
    logicalBytes,
    storedBytes: bytes,
    saved: logicalBytes === 0 ? 0 : Math.max(0, 1 - bytes / logicalBytes),
    growth,
  };
}

function format({ saved, growth, ...stats }: Awaited<ReturnType<typeof measure>>): string {
  const saving =
    stats.storedBytes > stats.logicalBytes
      ? 'small storages have more overhead than content'
      : `${(saved * 100).toFixed(1)} % saved by sharing`;
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
