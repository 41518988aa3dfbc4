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
  options: [['--list', 'list what was done, newest first']],
  details:
    'Undoes what you did on this machine, in all sessions or in the one given by --session. Deleted checkpoints cannot be restored: prune, forget and redact cannot be undone.',
  examples: [
    ['savestate undo', 'undo the last one'],
    ['savestate undo --list', 'see what can be undone'],
    ['savestate undo 3f2a9c01', 'undo a specific one'],
  ],
  run: async (context, input) => {
    const journal = await Journal.open(context);
    const isNamed = context.globals.session !== undefined;
    const sessionId = isNamed ? await (await context.open()).knownSession() : undefined;
    if (input.flag('list')) return list(context, journal, sessionId);
    const operation = choose(context, journal, { id: input.word(0), sessionId });
    const opened = await context.open();
    // All is looked at before anything is changed.
    for (const step of operation.undo) await checkStep(opened, operation, step);
    for (const step of operation.undo) await takeBack(opened, operation, step);
    journal.markUndone(operation.id);
    const output = toOutput({ ...operation, isUndone: true });
    return context.answer(output, () => `Undone: ${operation.summary}.\n`);
  },
};

async function list(context: Context, journal: Journal, only: string | undefined): Promise<undefined> {
  const isMeant = (operation: Operation) => only === undefined || operation.sessionId === only;
  const operations = journal.read().filter(isMeant).reverse().map(toOutput);
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

/** What is meant to be undone: one by its id, of one session. */
type Wanted = { readonly id: string | undefined; readonly sessionId: string | undefined };

function choose(context: Context, journal: Journal, { id, sessionId }: Wanted): Operation {
  const open = journal.read().filter((operation) => !operation.isUndone && (id ?? operation.id) === operation.id);
  const found = open.findLast((operation) => (sessionId ?? operation.sessionId) === operation.sessionId);
  if (found !== undefined) return found;
  const what = id === undefined ? 'nothing to undo' : `no operation ${id} to undo`;
  const other = open.at(-1);
  const where = sessionId === undefined ? '' : ` in session "${sessionId}"`;
  const more = other && ` The newest is of session "${other.sessionId}": ${other.summary}.`;
  throw new NotFoundError(
    `There is ${what}${where || (id === undefined ? ' here' : '')}.${more ?? ''}${id === undefined ? '' : ` See: ${context.command('undo --list')}`}`,
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
