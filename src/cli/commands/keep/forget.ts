import { ConflictError, InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import { parseSessionId } from '../../../core/record/id.ts';
import { readSession } from '../../../manager/engine/lineage.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { Output } from '../../base/output-schemas.ts';
import { findNamedSession, withSubgraphs } from '../../base/thread-sessions.ts';
import type { Workspace } from '../../base/workspace.ts';
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
    ['--whole-session <id>', 'a session with all that is in it'],
    ['--user <id>', 'everything of a user, in all sessions'],
    ['--reason <text>', 'why; it stays in the tombstone'],
    ['--dry-run', 'only say what would be deleted'],
  ],
  details: `Content is gone for good; of a checkpoint a tombstone without content stays, of a session nothing.
A thread of LangGraph goes with its subgraphs.
What a branch, a tag or a pin names is not deleted by a revision or range. It shows what it would do and asks.`,
  examples: [
    ['savestate forget @~3 --reason "wrong customer"', 'one checkpoint'],
    ['savestate forget v1..@~1', 'those after the tag v1, but not the head'],
    ['savestate forget --whole-session chat-42 --yes', 'a whole session'],
    ['savestate forget --user user_123 --dry-run', 'see what there is of a user'],
  ],
  run: async (context, input) => {
    const workspace = await context.workspace();
    const plan = await createPlan(workspace, input);
    const output = { checkpoints: plan.checkpoints, sessions: [...plan.sessions] };
    if (input.flag('dryRun')) return tell(context, { isDryRun: true, ...output }, plan.what);
    if (!(await context.confirm(`This deletes ${plan.what} for good.`)))
      return tell(context, { isDryRun: true, ...output }, plan.what);
    const checkpoints = await context.busy('deleting', plan.run());
    const { chunks, bytes } = await context.busy('collecting', workspace.manager.gc({ signal: context.signal }));
    return tell(context, { isDryRun: false, ...output, checkpoints, collected: { chunks, bytes } }, plan.what);
  },
};

async function createPlan(workspace: Workspace, input: CommandInput): Promise<Plan> {
  const [revision, session, user] = [input.word(0), input.text('wholeSession'), input.text('user')];
  if ([revision, session, user].filter((each) => each !== undefined).length !== 1)
    throw new InvalidInputError('Say what to forget: a revision or range, --whole-session <id>, or --user <id>.');
  if (session !== undefined) return planSession(workspace, session);
  if (user !== undefined) return planUser(workspace, user);
  return planCheckpoints(workspace, revision ?? '', input.text('reason') ?? 'forgotten by hand');
}

async function planSession(workspace: Workspace, name: string): Promise<Plan> {
  const { manager, storage } = workspace;
  const sessionId = await findNamedSession(workspace, parseSessionId(name));
  const sessions = await withSubgraphs(workspace, sessionId);
  if (sessions.length === 1 && (await storage.readRefs({ sessionId })).length === 0)
    throw new NotFoundError(`There is no session "${sessionId}" in this storage.`);
  let checkpoints = 0;
  for (const each of sessions)
    for await (const entry of readSession(storage, each)) if (entry.checkpoint !== undefined) checkpoints++;
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

async function planUser(workspace: Workspace, userId: string): Promise<Plan> {
  const sessions = new Set<string>();
  let checkpoints = 0;
  for await (const { sessionId } of workspace.list({ userId })) {
    sessions.add(sessionId);
    checkpoints++;
  }
  if (checkpoints === 0) throw new NotFoundError(`There are no checkpoints of user "${userId}" in this storage.`);
  const what = `${formatCount(checkpoints, 'checkpoint')} of user "${userId}" in ${formatCount(sessions.size, 'session')}`;
  return { what, checkpoints, sessions: [...sessions], run: () => workspace.manager.clearUserHistory(userId) };
}

async function planCheckpoints(workspace: Workspace, revision: string, reason: string): Promise<Plan> {
  const isRange = parseRange(revision) !== undefined;
  const doomed = isRange ? await readRange(workspace, revision) : [await resolveRevision(workspace, revision)];
  const run = async () => {
    let count = 0;
    for (const { id } of doomed.toReversed()) if (await workspace.manager.delete(id, { reason })) count++;
    if (count === 0 && doomed.length > 0)
      throw new ConflictError('Nothing was deleted: a branch, a tag or a pin names it. Delete the name first.');
    return count;
  };
  const [first] = doomed;
  const what =
    isRange || first === undefined
      ? formatCount(doomed.length, 'checkpoint')
      : `checkpoint ${first.id} (#${first.sequence} of branch "${first.branch}")`;
  return { what, checkpoints: doomed.length, sessions: [], run };
}

async function tell(context: Context, output: Output<'forget'>, what: string): Promise<undefined> {
  const { isDryRun, checkpoints, collected } = output;
  return context.answer(output, () => {
    if (isDryRun) return `Would delete ${what}; nothing was deleted.\n`;
    return `${formatCount(checkpoints, 'checkpoint')} deleted; ${formatSize(collected?.bytes ?? 0)} given back.\n`;
  });
}
