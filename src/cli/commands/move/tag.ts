import { InvalidInputError } from '../../../core/errors.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { noteOperation } from '../../place/own-files.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { formatRows } from '../../terminal/format.ts';
import { deleteName } from './branch.ts';

/** Lists, sets and deletes tags. */
export const command: Command = {
  arguments: '[name] [revision]',
  options: [['-d, --delete', 'delete the tag']],
  details: 'Tags do not move, and protect their checkpoint from prune.',
  examples: [
    ['savestate tag', 'the tags of the session'],
    ['savestate tag v1', 'name the head v1'],
    ['savestate tag before-refund @~2', 'name an earlier checkpoint'],
    ['savestate tag -d v1', 'delete the tag'],
  ],
  run: async (context, input) => {
    const name = input.word(0);
    if (input.flag('delete')) return deleteTag(context, input);
    return name === undefined ? list(context) : set(context, name, input.word(1) ?? '@');
  },
};

async function list(context: Context): Promise<undefined> {
  const opened = await context.open();
  const sessionId = await (context.globals.session === undefined ? opened.findSession() : opened.knownSession());
  const tags = sessionId === undefined ? [] : await opened.manager.tags(sessionId);
  const rows = tags.map(({ name, checkpointId }) => [context.terminal.style.yellow(name), checkpointId]);
  return context.answer(tags, () => formatRows(context.terminal, rows));
}

async function set(context: Context, name: string, revision: string): Promise<undefined> {
  const opened = await context.open();
  const { id, sessionId } = await resolveRevision(opened, revision);
  if (/^\d+$/.test(name))
    throw new InvalidInputError(
      `A tag cannot be called "${name}": in the REPL a number alone is a round. Try: v${name}`,
    );
  const checkpointId = await opened.manager.tag(id, name);
  const undo = [{ step: 'delete', kind: 'tag', name, target: checkpointId } as const];
  await noteOperation(context, { sessionId, summary: `tag ${id} as "${name}"`, undo });
  return context.answer({ name, checkpointId }, () => `Checkpoint ${checkpointId} is tagged "${name}".\n`);
}

async function deleteTag(context: Context, input: CommandInput): Promise<undefined> {
  const { name, target: checkpointId } = await deleteName(context, input, 'tag');
  return context.answer({ deleted: name, checkpointId }, () => `Tag "${name}" is deleted; it named ${checkpointId}.\n`);
}
