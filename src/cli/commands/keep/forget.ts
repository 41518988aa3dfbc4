import { ConflictError, InvalidInputError, isLost, NotFoundError } from '../../../core/errors.ts';
import { parseSessionId, type SessionId } from '../../../core/record/id.ts';
import { readSession } from '../../../manager/engine/records.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { readProtecting } from '../../../view/protecting.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import { findNamedSession, type OpenStorage, withSubgraphs } from '../../base/open-storage.ts';
import { parseRange, readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

/** What is to be forgotten: how much it is, and how it is done. */
type Plan = {
  readonly what: string;
  readonly checkpoints: number;
  readonly sessions: readonly string[];
  readonly run: () => Promise<number>;
};

/** Deletes what was named. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['--whole-session <id>', 'a session and everything in it'],
    ['--user <id>', 'all data of a user, in all sessions'],
    ['--reason <text>', 'why; it stays in the tombstone'],
    ['--dry-run', 'only say what would be deleted'],
  ],
  details: `Content is deleted for good. A checkpoint leaves a tombstone without content, a session leaves nothing.
A LangGraph thread is deleted with its subgraphs.
A revision or range does not delete what a branch, a tag or a pin names. Shows the plan and asks first.`,
  examples: [
    ['savestate forget @~3 --reason "wrong customer"', 'one checkpoint'],
    ['savestate forget v1..@~1', 'those after the tag v1, except the head'],
    ['savestate forget --whole-session chat-42 --yes', 'a whole session'],
    ['savestate forget --user user_123 --dry-run', 'see the data of a user'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const plan = await createPlan(opened, input);
    const { what, sessions } = plan;
    if (!(await context.confirm(`This deletes ${what} for good.`, input))) {
      const output = { isDryRun: true, checkpoints: plan.checkpoints, sessions };
      return context.answer(output, () => `Would delete ${what}; nothing was deleted.\n`);
    }
    const checkpoints = await context.busy('deleting', plan.run());
    const { chunks, bytes } = await context.busy('collecting', opened.manager.gc({ signal: context.signal }));
    return context.answer(
      { isDryRun: false, checkpoints, sessions, collected: { chunks, bytes } },
      () => `${formatCount(checkpoints, 'checkpoint')} deleted; ${formatSize(bytes)} freed.\n`,
    );
  },
};

async function createPlan(opened: OpenStorage, input: CommandInput): Promise<Plan> {
  const [revision, session, user] = [input.word(0), input.text('wholeSession'), input.text('user')];
  if ([revision, session, user].filter((each) => each !== undefined).length !== 1)
    throw new InvalidInputError('Say what to forget: a revision or range, --whole-session <id>, or --user <id>.');
  if (session !== undefined) return planSession(opened, session);
  if (user !== undefined) return planUser(opened, user);
  return planCheckpoints(opened, revision ?? '', input.text('reason') ?? 'forgotten by hand');
}

async function planSession(opened: OpenStorage, name: string): Promise<Plan> {
  const { manager, storage } = opened;
  const sessionId = await findNamedSession(opened, parseSessionId(name));
  const sessions = await withSubgraphs(opened, sessionId);
  if (sessions.length === 1 && (await storage.readRefs({ sessionId })).length === 0)
    throw new NotFoundError(`There is no session "${sessionId}" in this storage.`);
  let checkpoints = 0;
  for (const each of sessions) checkpoints += await countReadable(storage, each);
  const run = async () => {
    // The thread itself goes last: whoever is interrupted finds it there, and begins again.
    for (const each of sessions.toReversed()) await manager.deleteSession(each);
    return checkpoints;
  };
  const below = sessions.length === 1 ? '' : ` and ${formatCount(sessions.length - 1, 'subgraph')}`;
  return {
    what: `session "${sessionId}"${below} with ${formatCount(checkpoints, 'checkpoint')}`,
    checkpoints,
    sessions,
    run,
  };
}

/** What is damaged, or whose key was removed, can be deleted, too. */
async function countReadable(storage: ChunkStorage, sessionId: SessionId): Promise<number> {
  let count = 0;
  try {
    for await (const { checkpoint } of readSession(storage, sessionId)) if (checkpoint !== undefined) count++;
  } catch (error) {
    if (!isLost(error)) throw error;
  }
  return count;
}

async function planUser(opened: OpenStorage, userId: string): Promise<Plan> {
  const sessions = new Set<string>();
  let checkpoints = 0;
  for await (const { sessionId } of opened.list({ userId })) {
    sessions.add(sessionId);
    checkpoints++;
  }
  if (checkpoints === 0) throw new NotFoundError(`There are no checkpoints of user "${userId}" in this storage.`);
  const what = `${formatCount(checkpoints, 'checkpoint')} of user "${userId}" in ${formatCount(sessions.size, 'session')}`;
  return { what, checkpoints, sessions: [...sessions], run: () => opened.manager.clearUserHistory(userId) };
}

async function planCheckpoints(opened: OpenStorage, revision: string, reason: string): Promise<Plan> {
  const isRange = parseRange(revision) !== undefined;
  const meant = isRange ? await readRange(opened, revision) : [await resolveRevision(opened, revision)];
  const names = await readProtecting(opened.storage, meant);
  const doomed = meant.filter(({ id }) => !names.has(id));
  const [name] = names.values();
  if (doomed.length === 0 && name !== undefined)
    throw new ConflictError(`Nothing is deleted: ${name} names it. Delete the name first.`);
  const run = async () => {
    let count = 0;
    for (const { id } of doomed.toReversed()) if (await opened.manager.delete(id, { reason })) count++;
    if (count === 0 && doomed.length > 0)
      throw new ConflictError('Nothing was deleted: a branch, a tag or a pin names it. Delete the name first.');
    return count;
  };
  const [first] = doomed;
  const kept = names.size === 0 ? '' : ` (${[...names.values()].join(', ')} keeps ${formatCount(names.size, 'other')})`;
  const what =
    isRange || first === undefined
      ? `${formatCount(doomed.length, 'checkpoint')}${kept}`
      : `checkpoint ${first.id} (#${first.sequence} of branch "${first.branch}")`;
  return { what, checkpoints: doomed.length, sessions: [], run };
}
