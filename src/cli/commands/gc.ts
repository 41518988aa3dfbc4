import type { Command } from '../command.ts';
import { formatCount, formatSize } from '../terminal/format.ts';

/** Gives space back. */
export const command: Command = {
  details: 'Removes only what nothing needs any more, and may run beside programs that save.',
  examples: [['savestate gc', 'after prune, forget or redact']],
  run: async (context) => {
    const { manager } = await context.workspace();
    const { chunks, bytes } = await context.busy('collecting', manager.gc({ signal: context.signal }));
    await context.answer(
      { chunks, bytes },
      () => `${formatCount(chunks, 'chunk')} removed, ${formatSize(bytes)} given back.\n`,
    );
    return undefined;
  },
};
