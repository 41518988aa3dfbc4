import { formatPath } from '../../../core/path.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { readNames, toOutput } from '../../../view/checkpoint-output.ts';
import { toJsonForm } from '../../../view/json-form.ts';
import { openAt, parseStatePath, splitPath } from '../../../view/state-path.ts';
import type { Command, Context } from '../../base/command.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { formatDetails } from '../../state/checkpoint-text.ts';
import { formatJson, formatState } from '../../state/state-text.ts';

/** Shows one checkpoint. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['--header', 'without the state'],
    ['--raw', 'the whole state as JSON; in a pipe, a string at a path as plain text'],
  ],
  details:
    'A colon and a path after a revision show a value of its state. Values that JSON does not have are shown in a similar form: a Date as an ISO string, a Map as an object (or a list of pairs), a Set as a list, a bigint as the string "1n". For teams, fleets and LangGraph threads, the conversation, the ledgers and the other channels are shown; --raw shows everything.',
  examples: [
    ['savestate show', 'the head of the current branch'],
    ['savestate show @~3', 'three checkpoints before it'],
    ['savestate show v1:messages[-1].content', 'the last message at the tag v1'],
    [`savestate show '@:$.plan' --json`, 'a value, for a script'],
  ],
  run: async (context, input) => {
    const [revision, path] = splitPath(input.word(0) ?? '@');
    const opened = await context.open();
    const checkpoint = await resolveRevision(opened, revision);
    if (path !== undefined) return showValue(context, checkpoint, { path, isRaw: input.flag('raw') });
    const output = toOutput(checkpoint, await readNames(opened.manager, checkpoint.sessionId));
    const state = input.flag('header') ? undefined : await opened.manager.load(checkpoint.id);
    const { style } = context.terminal;
    const isWhole = input.flag('raw');
    const toText = () => {
      const details = formatDetails(output, style);
      if (input.flag('header')) return details;
      return `${details}\n${isWhole ? formatJson(state) : formatState(state, style)}`;
    };
    return context.answer({ checkpoint: output, state: toJsonForm(state) ?? null }, toText, { isWhole });
  },
};

async function showValue(
  context: Context,
  checkpoint: Checkpoint,
  asked: { readonly path: string; readonly isRaw: boolean },
): Promise<undefined> {
  const { manager } = await context.open();
  const path = parseStatePath(asked.path);
  const value = toJsonForm(openAt(await manager.load(checkpoint.id), path)) ?? null;
  if (asked.isRaw && !context.isJson && typeof value === 'string') {
    context.terminal.pass(`${value}\n`);
    return undefined;
  }
  const toText = () => (typeof value === 'string' ? `${value}\n` : formatJson(value));
  const output = { checkpoint: toOutput(checkpoint), path: formatPath(path), value };
  return context.answer(output, toText, { isWhole: true });
}
