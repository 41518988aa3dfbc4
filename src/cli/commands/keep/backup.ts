import { backup } from '../../../manager/backup/backup.ts';
import type { Command } from '../../base/command.ts';
import { copyAsIs, readPlace } from './copied.ts';

/** Backs a storage up. */
export const command: Command = {
  arguments: '<target>',
  options: [['--mirror', 'also delete in the backup what was deleted here']],
  details: `The target is a folder (backups/), a file (backup.db) or another storage address; it is made if it does not exist. The backup holds
the storage as it was at one moment, also while others save. Again, it moves only what is new; one that was stopped goes on where it was.
Every chunk is checked and read back. An encrypted storage is backed up as it is, without its keys: keep those elsewhere.
To bring it back: savestate restore-backup <target> --storage <new>.
Exits with 3 if something could not be copied, because it is damaged or went on by itself in the target.`,
  examples: [
    ['savestate backup /mnt/backup/agents/', 'to a folder'],
    [
      "savestate backup 'postgres://app@db/backup?tenant=acme' --mirror",
      'to PostgreSQL, without what was deleted here',
    ],
  ],
  run: async (context, input) => {
    const from = await context.addressHere('Run it where the storage is, or use "savestate copy --to <address>".');
    const to = readPlace(context, input.word(0));
    return copyAsIs(context, { from, to, verb: 'backed up to' }, (source, target, watch) =>
      backup(source, target, { ...watch, mirror: input.flag('mirror') }),
    );
  },
};
