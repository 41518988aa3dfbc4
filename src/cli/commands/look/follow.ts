import { setTimeout as sleep } from 'node:timers/promises';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { toOutput } from '../../../view/checkpoint-output.ts';
import { TAIL_PAGE, Tail } from '../../../view/tail.ts';
import type { Command, Context } from '../../base/command.ts';
import { formatLine } from '../../state/checkpoint-text.ts';
import { formatTime, widthOf } from '../../terminal/format.ts';

/** Short enough to seem immediate to a person. */
const POLL_MS = 250;
const DEFAULT_SHOWN = 5;

/** Shows checkpoints as they are saved. */
export const command: Command = {
  options: [
    ['-n <count>', `start with this many of the last ones; default ${DEFAULT_SHOWN}`],
    ['--all', 'of all sessions'],
  ],
  details: 'Runs until Ctrl-C. With --json: one line of JSON for each checkpoint.',
  examples: [
    ['savestate follow', 'what the current session saves'],
    ['savestate follow --all --json', 'everything, for a script'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const sessionId = input.flag('all') ? undefined : await opened.findSession();
    const filter = sessionId === undefined ? {} : { sessionId };
    const shown = input.count('n') ?? DEFAULT_SHOWN;
    const tail = new Tail(opened.manager, filter);
    for (const checkpoint of (await tail.readNew()).slice(shown === 0 ? TAIL_PAGE : -shown)) show(context, checkpoint);
    context.say(context.terminal.isNoteScreen ? 'Waiting for more. Press Ctrl-C to stop.' : 'following');
    for (;;) {
      await sleep(POLL_MS, undefined, { signal: context.signal });
      for (const checkpoint of await tail.readNew()) show(context, checkpoint);
    }
  },
};

function show(context: Context, checkpoint: Checkpoint): void {
  const output = toOutput(checkpoint);
  const { terminal } = context;
  const { timestamp, sessionId, contextSummary } = checkpoint;
  const words = contextSummary === undefined ? undefined : { text: contextSummary, isSaid: true };
  const place = `${terminal.style.dim(formatTime(timestamp))} ${terminal.style.bold(sessionId)} `;
  context.answerLine(output, () => `${place}${formatLine(output, terminal, { words, taken: widthOf(place) })}\n`);
}
