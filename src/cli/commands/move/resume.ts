import { withoutUndefined } from '../../../core/defined.ts';
import type { EffectMode } from '../../../manager/effect/effect-log.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { TALK_OPTIONS, WORKFLOW_OPTION } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/graph-move.ts';

const DEFAULT_ROUNDS = 5;
const MODES: readonly EffectMode[] = ['live', 'recorded', 'frozen'];

/** Continues a conversation from any checkpoint, as a new branch. */
export const command: Command = {
  arguments: '<revision>',
  options: [
    ['-n, --rounds <n>', `how many replies; default ${DEFAULT_ROUNDS}`],
    ['--mode <mode>', 'live, recorded (what was recorded, as long as it fits), or frozen (only that); default live'],
    ['--prompt <text>', 'say this first'],
    ['-b, --branch <name>', 'the name of the new branch; default: one is chosen'],
    ['--reason <text>', 'why, for those who look later'],
    ['--strip-signal', 'go on although the last message ended the conversation'],
    ['--restore-files', 'put the captured working directory back, too'],
    ...TALK_OPTIONS,
    WORKFLOW_OPTION,
  ],
  details: `The checkpoint and what came after it stay as they are. The new branch is the current one as soon as something was said in it.
N rounds append N messages, unless the conversation ends before. The run of a workflow goes on from its checkpoints, too.`,
  examples: [
    ['savestate resume @~4 -n 3', 'three more replies from four checkpoints back'],
    ['savestate resume v1 --prompt "Use metric units"', 'with another request'],
    ['savestate resume @~8 --mode frozen', 'again, without calling anything'],
  ],
  run: async (context, input) => {
    const departure = readDeparture(input);
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
    return holdTalk(context, input, ({ talk, following }) => talk.depart(origin, { ...departure, following }));
  },
};

function readDeparture(input: CommandInput) {
  return withoutUndefined({
    rounds: input.count('rounds') ?? DEFAULT_ROUNDS,
    mode: input.oneOf('mode', MODES) ?? 'live',
    stripSignal: input.flag('stripSignal'),
    files: input.flag('restoreFiles') ? ('restore' as const) : ('keep' as const),
    branch: input.text('branch'),
    reason: input.text('reason'),
    prompt: input.text('prompt'),
  });
}
