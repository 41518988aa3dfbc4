import { withoutUndefined } from '../../../core/defined.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { EffectMode } from '../../../manager/effect/effect-log.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { ExitCode } from '../../base/exit-code.ts';
import type { WorkflowPlace } from '../../place/own-files.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { checkKind, readOnDifference, TALK_OPTIONS } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/graph-move.ts';
import { findWorkflowPlace, WORKFLOW_OPTION } from '../../workflow/find-workflow-run.ts';

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
    await context.checkSaving();
    const departure = readDeparture(input);
    const opened = await context.open();
    const origin = await resolveRevision(opened, input.need(0, 'from which checkpoint'));
    await refuseThread(context, origin);
    const place = await findWorkflowPlace(context, input, origin.id);
    if (place !== undefined) return resumeWorkflow(context, input, { place, origin });
    const { holdTalk } = await import('../../team/hold-talk.ts');
    const { noteBranch } = await import('../../team/branch-note.ts');
    return holdTalk(context, input, async ({ talk, following }) => {
      const note = await noteBranch(context, origin);
      const result = await talk.depart(origin.id, { ...departure, ...following });
      await note(result);
      return result;
    });
  },
};

/** A workflow goes on from one of its checkpoints: what has ended there is not done again. */
async function resumeWorkflow(
  context: Context,
  input: CommandInput,
  { place, origin }: { readonly place: WorkflowPlace; readonly origin: Checkpoint },
): Promise<ExitCode | undefined> {
  checkKind(input, 'workflow');
  const { runWorkflow } = await import('../../workflow/run-workflow.ts');
  const { id: checkpointId, sessionId } = origin;
  const said = { answers: [], onDifference: readOnDifference(input), user: input.text('user') };
  return runWorkflow(context, { ...place, ...said, sessionId, checkpointId, input: undefined });
}

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
