import { ConflictError, InvalidInputError, isLost, messageOf, NotFoundError } from '../../../core/errors.ts';
import { parseSessionId, type SessionId } from '../../../core/record/id.ts';
import { readSession } from '../../../manager/engine/records.ts';
import type { ForgottenUser } from '../../../manager/retention/forgetting.ts';
import type { Memory } from '../../../memory/memory.ts';
import type { ChunkStorage } from '../../../storage/contract.ts';
import { readProtecting } from '../../../view/checkpoint-output.ts';
import { closing } from '../../base/closing.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { formatFlags } from '../../base/command-input.ts';
import { findNamedSession, type OpenStorage, withSubgraphs } from '../../base/open-storage.ts';
import { findFollowing, findMemory } from '../../memory/open-memory.ts';
import { parseRange, readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

/** What is to be forgotten: how much it is, and how it is done. */
type Plan = {
  readonly what: string;
  readonly checkpoints: number;
  readonly sessions: readonly string[];
  readonly run: () => Promise<Pick<ForgottenUser, 'checkpoints' | 'collected'>>;
  /** Of a user: what else goes, and what stays. */
  readonly user?: Pick<ForgottenUser, 'memories' | 'left' | 'unreadable'>;
};

/** Deletes what was named. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['--whole-session <id>', 'a session and everything in it'],
    ['--user <id>', 'all data of a user, in all sessions and in long-term memory'],
    [
      '--memory <place>',
      'with --user or --whole-session: the long-term memory; default: what savestate.yaml names, else memories/history.db',
    ],
    ['--reason <text>', 'why; it stays in the tombstone'],
    ['--dry-run', 'only say what would be deleted'],
  ],
  details: `Content is deleted for good. A checkpoint leaves a tombstone without content, a session leaves nothing.
A LangGraph thread is deleted with its subgraphs.
With --user, memories go too. What others saved in a shared session after the user is kept and named: it may hold the user's words.
Session files, exports and backups are not touched.
A revision or range does not delete what a branch, a tag or a pin names. Shows the plan and asks first.`,
  examples: [
    ['savestate forget @~3 --reason "wrong customer"', 'one checkpoint'],
    ['savestate forget v1..@~1', 'those after the tag v1, except the head'],
    ['savestate forget --whole-session chat-42 --yes', 'a whole session'],
    ['savestate forget --user user_123 --dry-run', 'see the data of a user'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const memory = input.has('user')
      ? await openMemoryOf(context, input, opened)
      : await findFollowing(context, { named: input.text('memory'), manager: opened.manager });
    await closing(memory, () => forget(context, input, opened));
  },
};

async function forget(context: Context, input: CommandInput, opened: OpenStorage): Promise<void> {
  const plan = await createPlan(opened, input);
  const { what, sessions, user } = plan;
  const isAgreed = await context.confirm(`This deletes ${what} for good.`, input);
  const done = isAgreed ? await carryOut(context, opened, plan) : undefined;
  const output = { isDryRun: !isAgreed, checkpoints: plan.checkpoints, sessions, ...user, ...done };
  await context.answer(output, () => {
    if (done === undefined) return `Would delete ${what}; nothing was deleted.\n`;
    const memories = user === undefined ? '' : ` and ${formatCount(user.memories, 'memory')}`;
    return `${formatCount(done.checkpoints, 'checkpoint')}${memories} deleted; ${formatSize(done.collected.bytes)} freed.\n`;
  });
  for (const left of user?.left ?? []) sayLeft(context, left);
  for (const sessionId of user?.unreadable ?? [])
    context.say(
      `Session "${sessionId}" holds checkpoints of this user that nobody can read: their key was removed. It stays; to delete the rest of it: ${context.command(`forget${formatFlags({ 'whole-session': sessionId })}`)}`,
    );
}

async function carryOut(context: Context, { manager }: OpenStorage, plan: Plan) {
  const { checkpoints, collected } = await context.busy('deleting', plan.run());
  const { chunks, bytes } = await context.busy('collecting', manager.gc({ signal: context.signal }));
  return {
    checkpoints,
    collected: { chunks: chunks + (collected?.chunks ?? 0), bytes: bytes + (collected?.bytes ?? 0) },
  };
}

function sayLeft(context: Context, { sessionId, checkpoints, steps }: ForgottenUser['left'][number]): void {
  const what = [
    ...(checkpoints.length > 0 ? [`${formatCount(checkpoints.length, 'checkpoint')} that others saved later`] : []),
    ...(steps > 0 ? [formatCount(steps, 'recorded step')] : []),
  ];
  const whole = formatFlags({ 'whole-session': sessionId });
  context.say(
    `Session "${sessionId}" is shared. Left in it: ${what.join(' and ')}, which may hold words of this user. To remove words: ${context.command('redact --text-from <file>', sessionId)}; to delete it whole: ${context.command(`forget${whole}`)}`,
  );
}

/** With the memory open, the manager forgets what it holds of a user. */
async function openMemoryOf(
  context: Context,
  input: CommandInput,
  { manager }: OpenStorage,
): Promise<Memory | undefined> {
  const named = input.text('memory');
  if (named === undefined && (await context.address()).kind === 'remote') {
    context.say('The long-term memory of the server is left. Run "savestate memory forget --user <id>" where it is.');
    return undefined;
  }
  return findMemory(context, { named, manager }, (error) =>
    context.say(`No long-term memory was found to forget the user in. ${messageOf(error)}`),
  );
}

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
  for (const each of sessions) checkpoints += await countCheckpoints(storage, each);
  const run = async () => {
    // The thread itself goes last: whoever is interrupted finds it there, and begins again.
    for (const each of sessions.toReversed()) await manager.deleteSession(each);
    return { checkpoints };
  };
  const below = sessions.length === 1 ? '' : ` and ${formatCount(sessions.length - 1, 'subgraph')}`;
  return {
    what: `session "${sessionId}"${below} with ${formatCount(checkpoints, 'checkpoint')}`,
    checkpoints,
    sessions,
    run,
  };
}

/** What is damaged, or whose key was removed, can be deleted, too. Damage ends the count. */
async function countCheckpoints(storage: ChunkStorage, sessionId: SessionId): Promise<number> {
  let count = 0;
  const [forgotten] = (await storage.countForgotten?.({ sessionId })) ?? [];
  if (forgotten !== undefined) return forgotten.checkpoints;
  try {
    for await (const { checkpoint } of readSession(storage, sessionId)) if (checkpoint !== undefined) count++;
  } catch (error) {
    if (!isLost(error)) throw error;
  }
  return count;
}

async function planUser({ manager }: OpenStorage, userId: string): Promise<Plan> {
  const { checkpoints, sessions, memories, left, unreadable = [] } = await manager.forgetUser(userId, { dryRun: true });
  if (checkpoints + memories + unreadable.length === 0)
    throw new NotFoundError(`There are no checkpoints and no memories of user "${userId}" here.`);
  const found = `${formatCount(checkpoints, 'checkpoint')} of user "${userId}" in ${formatCount(sessions.length, 'session')}`;
  const what = `${found} and ${formatCount(memories, 'memory')}`;
  const run = () => manager.forgetUser(userId);
  const lost = unreadable.length === 0 ? {} : { unreadable };
  return { what, checkpoints, sessions, run, user: { memories, left, ...lost } };
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
    return { checkpoints: count };
  };
  const [first] = doomed;
  const kept = names.size === 0 ? '' : ` (${[...names.values()].join(', ')} keeps ${formatCount(names.size, 'other')})`;
  const what =
    isRange || first === undefined
      ? `${formatCount(doomed.length, 'checkpoint')}${kept}`
      : `checkpoint ${first.id} (#${first.sequence} of branch "${first.branch}")`;
  return { what, checkpoints: doomed.length, sessions: [], run };
}
