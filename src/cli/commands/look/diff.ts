import { InvalidInputError } from '../../../core/errors.ts';
import { toDiffOutput } from '../../../view/diff-output.ts';
import { toJsonForm } from '../../../view/json-form.ts';
import type { Command, CommandInput, OpenStorage } from '../../base/command.ts';
import { parseRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { formatDiff, formatDiffStat } from '../../state/diff-text.ts';

/** Compares two checkpoints. */
export const command: Command = {
  arguments: '[a] [b]',
  options: [
    ['--stat', 'only the number of changes'],
    ['--path <path>', 'only changes at or below this path'],
    ['--all', 'include copies of messages, counters and other bookkeeping'],
    ['--patch', 'as a JSON Patch (RFC 6902) that turns a into b'],
  ],
  details:
    'With one revision: from it to the head. Without: from the parent of the head to the head. Messages come first, each once: ~ was changed, - is only in a, + only in b; [-words-] were removed, {+words+} were added. Bookkeeping (copies of messages, counters, channel versions) is only counted; --all shows it.',
  examples: [
    ['savestate diff', 'what the last checkpoint changed'],
    ['savestate diff @~5', 'the last five together'],
    ['savestate diff main..warm --stat', 'how much two branches differ'],
    ['savestate diff v1 @ --path plan --json', 'one part, for a script'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const [before, after] = await resolveSides(opened, input);
    const { manager } = opened;
    const whole = await manager.compare(before, after);
    if (input.flag('patch')) {
      context.printJson(toJsonForm(whole.patch));
      return undefined;
    }
    const output = toDiffOutput(whole, input.text('path'));
    if (input.flag('stat')) await context.answer(output, () => formatDiffStat(output, context.terminal.style));
    else {
      const isWhole = context.isJson || input.flag('all') || input.text('path') !== undefined || !output.hasChanges;
      const talks = isWhole ? undefined : { before: await manager.load(before), after: await manager.load(after) };
      await context.answer(output, () => formatDiff(output, context.terminal, talks));
    }
    if (!output.hasChanges) context.say('There are no differences.');
  },
};

async function resolveSides(opened: OpenStorage, input: CommandInput): Promise<[string, string]> {
  const [first, second] = [input.word(0), input.word(1)];
  const range = first === undefined || second !== undefined ? undefined : parseRange(first);
  if (range !== undefined) return resolveBoth(opened, range.from ?? '@', range.to);
  if (first !== undefined) return resolveBoth(opened, first, second ?? '@');
  const after = await resolveRevision(opened, '@');
  if (after.parentId === undefined)
    throw new InvalidInputError(`Checkpoint ${after.id} has no parent to compare it with. Name two checkpoints.`);
  return [after.parentId, after.id];
}

async function resolveBoth(opened: OpenStorage, a: string, b: string): Promise<[string, string]> {
  return [(await resolveRevision(opened, a)).id, (await resolveRevision(opened, b)).id];
}
