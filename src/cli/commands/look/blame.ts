import { type Blamed, blame } from '../../../view/blame.ts';
import { formatValue } from '../../../view/json-form.ts';
import { readMessage } from '../../../view/messages.ts';
import { parseStatePath } from '../../../view/state-path.ts';
import type { Command, Context } from '../../base/command.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { shortenId } from '../../state/checkpoint-text.ts';
import { clip, formatRows, formatTime } from '../../terminal/format.ts';

/** Says where values come from. */
export const command: Command = {
  arguments: '<path> [revision]',
  details: 'For a list or an object, each element has its own line. --whole treats it as one value.',
  options: [['--whole', 'the value as a whole, even if it has parts']],
  examples: [
    ['savestate blame $.messages', 'which checkpoint added each message'],
    ['savestate blame plan.tone v1', 'who set this last, at the tag v1'],
  ],
  run: async (context, input) => {
    const path = parseStatePath(input.need(0, 'which path'));
    const opened = await context.open();
    const from = await resolveRevision(opened, input.word(1) ?? '@');
    const how = { isWhole: input.flag('whole'), watch: context.watchCheckpoints };
    const found = await blame(opened.manager, { from, path }, how);
    return context.answer(found, () => format(context, found));
  },
};

function format({ terminal }: Context, found: readonly Blamed[]): string {
  const { style, isScreen } = terminal;
  const rows = found.map(({ path, value, checkpoint }) => {
    const message = readMessage(value);
    const text = message === undefined ? formatValue(value) : `${message.speaker}: ${message.text}`;
    return [
      `#${checkpoint.sequence}`,
      style.cyan(isScreen ? shortenId(checkpoint.id) : checkpoint.id),
      checkpoint.author ?? checkpoint.trigger ?? checkpoint.type,
      formatTime(new Date(checkpoint.savedAt)),
      path,
      clip(text, Number.POSITIVE_INFINITY),
    ];
  });
  return formatRows(terminal, rows, { right: [0], spare: [3, 1, 2] });
}
