// The code behind packing.yaml. In the environment: DELAY_MS is how long a look at the sky takes, and STARTED lets it say that it begins.
import { setTimeout as sleep } from 'node:timers/promises';

/** What the steps name. */
export const registry = {
  functions: {
    look_at_sky: async (days, { signal }) => {
      if (process.env.STARTED !== undefined) process.stderr.write('looking\n');
      await sleep(Number(process.env.DELAY_MS ?? 0), undefined, { signal });
      return days > 1 ? 'rain' : 'sun';
    },
    pack_bag: ({ days, coat }) => `${days} shirts${coat ? ' and a coat' : ''}`,
  },
};
