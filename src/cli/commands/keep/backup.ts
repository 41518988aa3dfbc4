import { backup } from '../../../manager/backup/backup.ts';
import type { Command } from '../../base/command.ts';
import { copyAsIs, readPlace } from './copied.ts';

/** Backs a storage up. */
export const command: Command = {
  arguments: '<target>',
  options: [['--mirror', 'also apply deletions to the backup']],
  details: `The target is a folder (an existing one, or a name that ends with /), a SQLite file (any other name: backup.db) or another storage
address; it is created if it does not exist. The backup holds the storage as of one moment, even while others save. A repeated backup copies only what is new; a stopped one continues where it was.
Every record and chunk is checked, and chunks are read back. An encrypted storage is backed up as it is, without its keys: keep those
elsewhere. If they are at hand (savestate help key), its records are checked with them; else the report says how many were not.
To restore it: savestate restore-backup <target> --storage <new>.
Exits with 3 if something could not be copied, because it is damaged or was continued in the target.`,
  examples: [
    ['savestate backup /mnt/backup/agents/', 'to a folder'],
    ["savestate backup 'postgres://app@db/backup?tenant=acme' --mirror", 'to PostgreSQL, with deletions'],
  ],
  run: async (context, input) => {
    const from = await context.addressHere('Run it where the storage is, or use "savestate copy --to <address>".');
    const to = readPlace(context, input.word(0));
    return copyAsIs(context, { from, to, verb: 'backed up to' }, (source, target, watch) =>
      backup(source, target, { ...watch, mirror: input.flag('mirror') }),
    );
  },
};
