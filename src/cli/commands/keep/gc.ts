import type { Command } from '../../base/command.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

/** Gives space back. */
export const command: Command = {
  options: [['--recordings', 'first drop step results that no checkpoint continues from']],
  details: `Removes only unneeded data, and is safe while programs save.
With --recordings a session can no longer be replayed from its start, only from the checkpoints it has.`,
  examples: [
    ['savestate gc', 'after prune, forget or redact'],
    ['savestate gc --recordings', 'for sessions that run for weeks'],
  ],
  run: async (context, input) => {
    const { manager } = await context.open();
    const recordings = input.flag('recordings') ? await context.busy('dropping', manager.dropRecordings()) : 0;
    const { chunks, bytes } = await context.busy('collecting', manager.gc({ signal: context.signal }));
    const dropped = recordings > 0 ? `${formatCount(recordings, 'recording')} dropped, ` : '';
    return context.answer(
      { chunks, bytes, recordings },
      () => `${dropped}${formatCount(chunks, 'chunk')} removed, ${formatSize(bytes)} freed.\n`,
    );
  },
};
