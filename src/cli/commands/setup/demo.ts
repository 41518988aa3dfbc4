import type { Command } from '../../base/command.ts';

/** Shows what this is for. */
export const command: Command = {
  details: 'Needs no server and no key; everything it makes is gone afterwards.',
  examples: [['savestate demo', 'save, crash, resume, fork, compare, prune, verify: in a minute']],
  run: async () => {
    await import('../../tour/tour.ts');
  },
};
