import { NotFoundError } from '../../../core/errors.ts';
import { isAnswerBranch } from '../../../manager/revision/ref-name.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { noteOperation } from '../../place/own-files.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { formatRows } from '../../terminal/format.ts';
import { tellBranch } from './fork.ts';

/** Lists, makes and deletes branches. */
export const command: Command = {
  arguments: '[name] [revision]',
  options: [
    ['-d, --delete', 'delete the name; its checkpoints stay until prune'],
    ['-a, --all', 'include branches that hold answers of people'],
  ],
  examples: [
    ['savestate branch', 'the branches of the session'],
    ['savestate branch try @~2', 'a branch two checkpoints back'],
    ['savestate branch -d try', 'delete its name'],
  ],
  run: async (context, input) => {
    const name = input.word(0);
    if (input.flag('delete')) return deleteBranch(context, input);
    return name === undefined ? list(context, input.flag('all')) : make(context, name, input.word(1) ?? '@');
  },
};

async function list(context: Context, isAll: boolean): Promise<undefined> {
  const opened = await context.open();
  const sessionId = await (context.globals.session === undefined ? opened.findSession() : opened.knownSession());
  const current = sessionId === undefined ? '' : await opened.manager.currentBranch(sessionId);
  const all = sessionId === undefined ? [] : await opened.manager.branches(sessionId);
  const heads = all.filter(({ branch }) => isAll || !isAnswerBranch(branch));
  const branches = heads.map(({ branch, headId }) => ({ branch, name: branch, headId, isCurrent: branch === current }));
  const { style } = context.terminal;
  const rows = branches.map(({ branch, headId, isCurrent }) => [
    isCurrent ? '*' : ' ',
    isCurrent ? style.green(branch) : branch,
    headId,
  ]);
  return context.answer(branches, () => formatRows(context.terminal, rows));
}

async function make(context: Context, name: string, revision: string): Promise<undefined> {
  const opened = await context.open();
  const origin = await resolveRevision(opened, revision);
  const head = await opened.manager.fork(origin.id, { branch: name });
  await noteOperation(context, {
    sessionId: head.sessionId,
    summary: `make branch "${name}" at ${origin.id}`,
    undo: [{ step: 'delete', kind: 'branch', name, target: head.headId }],
  });
  return tellBranch(context, head, `began at #${origin.sequence}`);
}

/** Deletes a branch or a tag, and returns what it named. */
export async function deleteName(context: Context, input: CommandInput, kind: 'branch' | 'tag') {
  const name = input.need(0, `which ${kind} to delete`);
  const opened = await context.open();
  const sessionId = await opened.session();
  const target = await opened.findName(sessionId, kind, name);
  if (target === undefined) throw new NotFoundError(`Session "${sessionId}" has no ${kind} "${name}".`);
  await (kind === 'tag' ? opened.manager.untag(sessionId, name) : opened.manager.deleteBranch(sessionId, name));
  const undo = [{ step: 'make', kind, name, target } as const];
  await noteOperation(context, { sessionId, summary: `delete ${kind} "${name}" at ${target}`, undo });
  return { sessionId, name, target };
}

async function deleteBranch(context: Context, input: CommandInput): Promise<undefined> {
  const { sessionId, name, target: headId } = await deleteName(context, input, 'branch');
  await context.answer(
    { sessionId, deleted: name, headId },
    () => `Branch "${name}" is deleted; it was at ${headId}.\n`,
  );
  context.say(`Its checkpoints stay until prune. Undo with: ${context.command('undo')}`);
}
