import { formatStorageAddress } from '../../../storage/open/address.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import { formatCount, formatSize, formatTable } from '../../terminal/format.ts';

/** Shows how much is stored. */
export const command: Command = {
  examples: [
    ['savestate stats', 'counts and sizes'],
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
  let logicalBytes = 0;
  const work = { noun: 'checkpoints', total: checkpoints };
  for await (const { stateBytes } of context.watch(opened.list({}), work)) logicalBytes += stateBytes;
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
  };
}

function format({ saved, ...stats }: Awaited<ReturnType<typeof measure>>): string {
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
  ]);
}
