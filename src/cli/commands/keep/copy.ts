import { InvalidInputError, messageOf } from '../../../core/errors.ts';
import { type BackupReport, toReport } from '../../../manager/backup/backup.ts';
import { type ReplicateOptions, replicateStorage } from '../../../manager/backup/replicate.ts';
import { StorageCopy } from '../../../manager/transfer/copy-storage.ts';
import { closing } from '../../base/closing.ts';
import type { Command, Context } from '../../base/command.ts';
import { checkApart, parseAddress } from '../../place/address.ts';
import { formatCount } from '../../terminal/format.ts';
import { checkLasting, problemsOf, tellCopied, watchCopy } from './copied.ts';

/** Copies sessions to another storage. */
export const command: Command = {
  options: [
    ['--to <address>', 'the target, also a server (http://...); a storage is created if it does not exist'],
    ['--to-tenant <name>', 'whose data it is there, in PostgreSQL'],
    ['--to-schema <name>', 'where the tables are there, in PostgreSQL'],
    ['--to-plain', 'write it unencrypted, although there are keys'],
    ['--mirror', 'also apply deletions to the target'],
    ['--follow', 'keep the other storage up to date until Ctrl-C or SIGTERM'],
  ],
  details: `All sessions, or the one named with --session. Existing data is not copied again: a stopped copy continues where it was,
and a repeated one copies only what is new. Ids, names, effects and tombstones do not change. Exits with 3 if something could not be copied.
If there are keys (savestate help key), the copy uses the newest, whether the source is encrypted or not.
With --follow it retries while either storage is unavailable; a session that was changed in the target is reported and left alone, and
it exits with 3 if one still is at the end. With --mirror, deletions follow within five minutes.`,
  examples: [
    ['savestate copy --to postgres://app@db/app --to-tenant acme', 'from SQLite to PostgreSQL'],
    ['savestate copy --storage postgres://app@db/app --tenant acme --to backup.db', 'and back'],
    ['savestate copy --to postgres://app@db/app --follow', 'a second storage that is kept up to date'],
    ['savestate copy -s chat-42 --to file:chats', 'one session, as plain files'],
  ],
  run: async (context, input) => {
    const text = input.text('to');
    if (text === undefined) throw new InvalidInputError('Say where to: --to <address>.');
    const from = await context.address();
    const to = parseAddress(text, {
      folder: context.folder,
      env: context.env,
      tenant: input.text('toTenant'),
      schema: input.text('toSchema'),
    });
    checkApart(from, checkLasting(to));
    const opened = await context.open({ plain: 'allow' }); // the source first, so that nothing is made if it is the wrong one
    const named = context.globals.session === undefined ? undefined : [await opened.session()];
    const options = { mirror: input.flag('mirror'), sessions: named };
    return closing(await context.openAt(to, { plain: input.flag('toPlain') ? 'make' : 'refuse' }), async (target) => {
      const report = input.flag('follow')
        ? await followCopy(context, (more) => replicateStorage(opened.storage, target, { ...options, ...more }))
        : await watchCopy(context, opened.storage, async (watch) =>
            toReport(await new StorageCopy(opened.storage, target, { ...options, ...watch }).run()),
          );
      return tellCopied(context, report, { verb: 'copied to', from, to });
    });
  },
};

/** Says what each pass brought, until it is stopped. */
function followCopy(
  context: Context,
  replicate: (options: Pick<ReplicateOptions, 'signal' | 'onPass' | 'onError'>) => Promise<BackupReport>,
): Promise<BackupReport> {
  context.say(context.terminal.isNoteScreen ? 'Following. Press Ctrl-C to stop.' : 'following');
  return replicate({
    signal: context.signal,
    onPass: (report) => context.say(formatPass(report)),
    onError: (error) => context.say(`Retrying: ${messageOf(error)}`),
  });
}

function formatPass(report: BackupReport): string {
  const { checkpoints, chunks } = report;
  const problems = problemsOf(report);
  const copied = `${formatCount(checkpoints, 'checkpoint')}, ${formatCount(chunks, 'chunk')} copied`;
  return [...(checkpoints + chunks > 0 || problems.length === 0 ? [copied] : []), ...problems].join('\n');
}
