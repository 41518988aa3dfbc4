import { ConflictError, NotFoundError } from '../../../core/errors.ts';
import { parseSessionId } from '../../../core/record/id.ts';
import { restoreBranch } from '../../../manager/branch/branching.ts';
import type { Command, Context, OpenStorage } from '../../base/command.ts';
import { noteUndone, type Operation, readOperations, type UndoStep } from '../../place/own-files.ts';
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
    const isNamed = context.globals.session !== undefined;
    const sessionId = isNamed ? await (await context.open()).knownSession() : undefined;
    if (input.flag('list')) return list(context, sessionId);
    const operation = await choose(context, { id: input.word(0), sessionId });
    const opened = await context.open();
    // All is looked at before anything is changed.
    for (const step of operation.undo) await checkStep(opened, operation, step);
    for (const step of operation.undo) await takeBack(opened, operation, step);
    await noteUndone(context, operation.id);
    const output = toOutput({ ...operation, isUndone: true });
    return context.answer(output, () => `Undone: ${operation.summary}.\n`);
  },
};

async function list(context: Context, only: string | undefined): Promise<undefined> {
  const meant = (await readOperations(context)).filter(({ sessionId }) => sessionId === (only ?? sessionId));
  const operations = meant.reverse().map(toOutput);
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

async function choose(context: Context, { id, sessionId }: Wanted): Promise<Operation> {
  const operations = await readOperations(context);
  const open = operations.filter((operation) => !operation.isUndone && (id ?? operation.id) === operation.id);
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
  const { kind, name } = step;
  const found = await opened.findName(parseSessionId(sessionId), kind, name);
  const expected = step.step === 'delete' ? step.target : undefined;
  if (step.step === 'switch' ? found !== undefined : found === expected) return;
  const now = found === undefined ? 'is gone' : `is at ${found}`;
  throw new ConflictError(`Cannot undo "${summary}": since then ${kind} "${name}" was changed; it ${now}.`);
}

async function takeBack({ manager }: OpenStorage, { sessionId }: Operation, step: UndoStep): Promise<void> {
  const { kind, name } = step;
  if (step.step === 'switch') return manager.switchBranch(sessionId, name);
  if (step.step === 'delete')
    return kind === 'tag' ? manager.untag(sessionId, name) : manager.deleteBranch(sessionId, name);
  await (kind === 'tag' ? manager.tag(step.target, name) : restoreBranch(manager.engine, step.target, name));
}
