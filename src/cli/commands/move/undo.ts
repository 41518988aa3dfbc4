import { ConflictError, NotFoundError } from '../../../core/errors.ts';
import { parseSessionId } from '../../../core/record/id.ts';
import type { Command } from '../../base/command.ts';
import type { Context } from '../../base/context.ts';
import type { OpenStorage } from '../../base/open-storage.ts';
import { Journal, type Operation, type UndoStep } from '../../place/own-files.ts';
import { formatRows, formatTime } from '../../terminal/format.ts';

/** Takes back what was done to branches and tags. */
export const command: Command = {
  arguments: '[operation]',
  options: [['--list', 'what was done, the newest first']],
  details:
    'Knows what this person did on this machine. Deleted checkpoints do not come back: prune, forget and redact cannot be undone.',
  examples: [
    ['savestate undo', 'undo the last one'],
    ['savestate undo --list', 'see what can be undone'],
    ['savestate undo 3f2a9c01', 'undo a certain one'],
  ],
  run: async (context, input) => {
    const journal = await Journal.open(context);
    if (input.flag('list')) return list(context, journal);
    const operation = choose(context, journal, input.word(0));
    const opened = await context.open();
    // All is looked at before anything is changed.
    for (const step of operation.undo) await checkStep(opened, operation, step);
    for (const step of operation.undo) await takeBack(opened, operation, step);
    journal.markUndone(operation.id);
    const output = toOutput({ ...operation, isUndone: true });
    return context.answer(output, () => `Undone: ${operation.summary}.\n`);
  },
};

async function list(context: Context, journal: Journal): Promise<undefined> {
  const operations = journal.read().reverse().map(toOutput);
  const rows = operations.map(({ id, at, summary, isUndone }) => [
    id,
    formatTime(new Date(at)),
    `${summary}${isUndone ? ' (undone)' : ''}`,
  ]);
  return context.answer(operations, () => formatRows(context.terminal, rows));
}

function toOutput({ id, at, sessionId, summary, isUndone }: Operation & { readonly isUndone: boolean }) {
  return { id, at, sessionId, summary, isUndone };
}

function choose(context: Context, journal: Journal, id: string | undefined): Operation {
  const open = journal.read().filter(({ isUndone }) => !isUndone);
  const found = id === undefined ? open.at(-1) : open.find((operation) => operation.id === id);
  if (found !== undefined) return found;
  throw new NotFoundError(
    id === undefined
      ? 'There is nothing to undo here.'
      : `There is no operation ${id} to undo. See: ${context.command('undo --list')}`,
  );
}

async function checkStep(opened: OpenStorage, { sessionId, summary }: Operation, step: UndoStep): Promise<void> {
  const kind = step.step.endsWith('tag') ? 'tag' : 'branch';
  const found = await opened.findName(parseSessionId(sessionId), kind, step.name);
  const expected = expectedTarget(step);
  const isAsLeft = step.step === 'switch' ? found !== undefined : found === expected;
  if (isAsLeft) return;
  const now = found === undefined ? 'is gone' : `is at ${found}`;
  throw new ConflictError(`Cannot undo "${summary}": since then ${kind} "${step.name}" was changed; it ${now}.`);
}

function expectedTarget(step: UndoStep): string | undefined {
  if (step.step === 'delete-branch') return step.headId;
  return step.step === 'delete-tag' ? step.checkpointId : undefined;
}

async function takeBack({ manager }: OpenStorage, { sessionId }: Operation, step: UndoStep): Promise<void> {
  switch (step.step) {
    case 'delete-branch':
      return manager.deleteBranch(sessionId, step.name);
    case 'make-branch':
      return void (await manager.fork(step.headId, { branch: step.name }));
    case 'switch':
      return manager.switchBranch(sessionId, step.name);
    case 'delete-tag':
      return manager.untag(sessionId, step.name);
    case 'make-tag':
      return void (await manager.tag(step.checkpointId, step.name));
  }
}
