import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { packageFolder } from '../../../server/http/package-folder.ts';
import type { Command } from '../../base/command.ts';

/** Shows what this is for. */
export const command: Command = {
  details: 'Needs no server and no key; deletes everything it creates.',
  examples: [['savestate demo', 'save, crash, resume, fork, compare, prune, verify: in a minute']],
  run: async () => {
    // The tour is an example, and the examples are in the package.
    await import(pathToFileURL(join(packageFolder(), 'examples/tour/tour.mjs')).href);
  },
};
