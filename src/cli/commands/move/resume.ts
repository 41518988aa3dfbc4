import type { EffectMode } from '../../../manager/effect/step.ts';
import type { Command, CommandInput } from '../../base/command.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { DEFAULT_ROUNDS, TALK_OPTIONS, WORKFLOW_OPTION } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/thread-step.ts';

const MODES: readonly EffectMode[] = ['live', 'recorded', 'frozen'];

/** Continues a conversation from any checkpoint, as a new branch. */
export const command: Command = {
  arguments: '<revision>',
  options: [
    ['-n, --rounds <n>', `number of replies; default ${DEFAULT_ROUNDS}`],
    [
      '--mode <mode>',
      'live, recorded (use recorded calls while they match) or frozen (only recorded calls); default live',
    ],
    ['--prompt <text>', 'add this prompt first'],
    ['-b, --branch <name>', 'the name of the new branch; default: generated'],
    ['--reason <text>', 'the reason, for later readers'],
    ['--strip-signal', 'continue although the last message ended the conversation'],
    ['--restore-files', 'restore the captured working directory, too'],
    ...TALK_OPTIONS,
    WORKFLOW_OPTION,
  ],
  details: `The checkpoint and everything after it are unchanged. The new branch becomes current with its first message.
N rounds append N messages, unless the conversation ends earlier. Workflow runs continue from their checkpoints, too.`,
  examples: [
    ['savestate resume @~4 -n 3', 'three more replies from four checkpoints back'],
    ['savestate resume v1 --prompt "Use metric units"', 'with a new prompt'],
    ['savestate resume @~8 --mode frozen', 'replay it without any calls'],
  ],
  run: async (context, input) => {
    const order = readOrder(input);
    const { findWorkflowPlace, openRun } = await import('../../workflow/workflow-file.ts');
    const opened = await openRun(context, input);
    const origin = await resolveRevision(opened, input.need(0, 'from which checkpoint'));
    await refuseThread(context, origin);
    const place = await findWorkflowPlace(context, input, origin);
    if (place !== undefined) {
      // What has ended there is not done again.
      const { runWorkflow } = await import('../../workflow/run-workflow.ts');
      return runWorkflow(context, input, { ...place, sessionId: origin.sessionId, origin });
    }
    const { holdTalk } = await import('../../team/run-output.ts');
    const { sessionId } = origin;
    return holdTalk(context, input, ({ talk, following }) =>
      talk.run({ ...order, sessionId, from: origin }, following),
    );
  },
};

function readOrder(input: CommandInput) {
  return {
    rounds: input.limit('rounds'),
    mode: input.oneOf('mode', MODES),
    stripSignal: input.flag('stripSignal'),
    files: input.flag('restoreFiles') ? ('restore' as const) : ('keep' as const),
    branch: input.text('branch'),
    reason: input.text('reason'),
    prompt: input.text('prompt'),
  };
}
