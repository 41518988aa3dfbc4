import { InvalidInputError, NotFoundError } from '../../../core/errors.ts';
import { isAnswerBranch } from '../../../manager/revision/ref-name.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import { Journal } from '../../place/own-files.ts';
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
    if (input.flag('delete')) return deleteBranch(context, name);
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
  (await Journal.open(context)).add({
    sessionId: head.sessionId,
    summary: `make branch "${name}" at ${origin.id}`,
    undo: [{ step: 'delete-branch', name, headId: head.headId }],
  });
  return tellBranch(context, head, `began at #${origin.sequence}`);
}

async function deleteBranch(context: Context, name: string | undefined): Promise<undefined> {
  if (name === undefined) throw new InvalidInputError('Say which branch to delete.');
  const opened = await context.open();
  const sessionId = await opened.session();
  const headId = await opened.findName(sessionId, 'branch', name);
  if (headId === undefined) throw new NotFoundError(`Session "${sessionId}" has no branch "${name}".`);
  await opened.manager.deleteBranch(sessionId, name);
  (await Journal.open(context)).add({
    sessionId,
    summary: `delete branch "${name}" at ${headId}`,
    undo: [{ step: 'make-branch', name, headId }],
  });
  await context.answer(
    { sessionId, deleted: name, headId },
    () => `Branch "${name}" is deleted; it was at ${headId}.\n`,
  );
  context.say(`Its checkpoints stay until prune. Undo with: ${context.command('undo')}`);
}
