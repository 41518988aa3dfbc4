import { restoreBackup } from '../../../manager/backup/backup.ts';
import type { Command } from '../../base/command.ts';
import { checkLasting, copyAsIs, readPlace } from './copied.ts';

/** Brings a backup into a new storage. */
export const command: Command = {
  arguments: '<backup>',
  details: `Restores a backup into the storage (--storage, or the one of this folder), which must be empty or not exist yet, and then checks every
byte; of an encrypted one records only where its keys are (savestate help key). If it is stopped, run it again to continue. For single sessions of a backup: savestate copy --storage <backup> -s <session> --to <address>.
Exits with 3 if the backup is incomplete or damaged; the rest is restored.`,
  examples: [['savestate restore-backup /mnt/backup/agents/ --storage agents.db', 'into a new SQLite file']],
  run: async (context, input) => {
    const from = readPlace(context, input.word(0));
    const to = checkLasting(await context.addressHere('Run it where the storage is to be.'));
    return copyAsIs(context, { from, to, verb: 'restored to' }, restoreBackup);
  },
};
