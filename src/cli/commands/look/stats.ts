import { eachCheckpoint } from '../../../manager/branch/history.ts';
import { measureStorage } from '../../../view/figures.ts';
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
  const { manager } = await context.open();
  const measured = await measureStorage(manager, (total) =>
    context.watchCheckpoints(eachCheckpoint(manager, {}), total),
  );
  const { logicalBytes, storedBytes } = measured;
  const saved = logicalBytes === 0 ? 0 : Math.max(0, 1 - storedBytes / logicalBytes);
  return { storage: formatAddress(await context.address()), ...measured, saved };
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

function describeGrowth(growth: Awaited<ReturnType<typeof measure>>['growth']): string[][] {
  const [first, last] = [growth[0], growth.at(-1)];
  if (first === undefined || last === undefined) return [];
  const times = [first, last].map(({ until }) => formatTime(new Date(until)));
  return [
    ['growth', formatSparkline(growth.map((bar) => bar.logicalBytes))],
    ['', `${times.join(' to ')} UTC, logical bytes`],
  ];
}
