import type { Command } from '../../base/command.ts';

/** The tour is an example, and the examples are in the package. */
const TOUR = new URL('../../../../examples/tour/tour.mjs', import.meta.url);

/** Shows what this is for. */
export const command: Command = {
  details: 'Needs no server and no key; everything it makes is gone afterwards.',
  examples: [['savestate demo', 'save, crash, resume, fork, compare, prune, verify: in a minute']],
  run: async () => {
    await import(TOUR.href);
  },
};
