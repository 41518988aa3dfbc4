import { sessionsBelow } from '../../../adapter/session-name.ts';
import { hasErrorCode, InvalidInputError, isLost } from '../../../core/errors.ts';
import { copySession } from '../../../manager/transfer/copy-session.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import { EXIT } from '../../base/exit-code.ts';
import { formatAddress, parseAddress } from '../../place/address.ts';
import { formatCount } from '../../terminal/format.ts';

type Copied = { sessionId: string; checkpoints: number; present: number; problem?: string };

/** Copies sessions to another storage. */
export const command: Command = {
  options: [
    ['--to <address>', 'where to, also a server (http://...); a storage is made if it does not exist'],
    ['--to-tenant <name>', 'whose data it is there, in PostgreSQL'],
    ['--to-schema <name>', 'where the tables are there, in PostgreSQL'],
    ['--to-plain', 'not encrypted there, although there are keys'],
  ],
  details: `All sessions, or the one named with --session. What is there already is left alone: a copy that was stopped goes on where it was,
and one that is repeated brings what came since. Ids, names, effects and tombstones stay what they are. Exits with 3 if a session could not be copied.
Where there are keys (savestate help key), the copy is written with the newest, whether the source is encrypted or not.`,
  examples: [
    ['savestate copy --to postgres://app@db/app --to-tenant acme', 'from SQLite to PostgreSQL'],
    ['savestate copy --storage postgres://app@db/app --tenant acme --to backup.db', 'and back'],
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
    if (formatAddress(from) === formatAddress(to)) throw new InvalidInputError('The two storages are the same one.');
    await context.open({ plain: 'allow' }); // the source first, so that nothing is made if it is the wrong one
    const target = await context.openAt(to, { plain: input.flag('toPlain') ? 'make' : 'refuse' });
    try {
      const sessions = await copyAll(context, target);
      return await tell(context, { from: formatAddress(from), to: formatAddress(to), sessions });
    } finally {
      await target.close();
    }
  },
};

async function copyAll(context: Context, target: ChunkStorage): Promise<Copied[]> {
  const opened = await context.open();
  const { manager, storage } = opened;
  const named = context.globals.session === undefined ? undefined : await opened.session();
  const total = named === undefined ? (await manager.stats()).checkpoints : undefined;
  const bar = context.progress({ noun: 'checkpoints', total });
  let done = 0;
  const onCheckpoint = async () => {
    await context.checkStop();
    bar.show(++done);
  };
  const copied: Copied[] = [];
  try {
    for (const sessionId of named === undefined ? await sessionsBelow(storage, '') : [named]) {
      const counts = await copySession(manager, sessionId, { storage: target, onCheckpoint }).catch(toProblem);
      copied.push({ sessionId, checkpoints: 0, present: 0, ...counts });
    }
    return copied;
  } finally {
    bar.end();
  }
}

/** What is wrong with one session does not stop the others. */
function toProblem(error: unknown): { problem: string } {
  if (error instanceof Error && (hasErrorCode(error, 'CONFLICT') || isLost(error))) return { problem: error.message };
  throw error;
}

async function tell(context: Context, result: { from: string; to: string; sessions: readonly Copied[] }) {
  const { sessions, to } = result;
  const checkpoints = sessions.reduce((sum, each) => sum + each.checkpoints, 0);
  const present = sessions.reduce((sum, each) => sum + each.present, 0);
  const problems = sessions.flatMap(({ sessionId, problem }) =>
    problem === undefined ? [] : [`  ${sessionId}: ${problem}\n`],
  );
  await context.answer({ ...result, checkpoints, present }, () => {
    const there = present === 0 ? '' : `; ${present} were there already`;
    return `${formatCount(checkpoints, 'checkpoint')} of ${formatCount(sessions.length, 'session')} copied to ${to}${there}.\n${problems.join('')}`;
  });
  return problems.length > 0 ? EXIT.partial : undefined;
}
