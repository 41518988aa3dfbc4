import { withoutUndefined } from '../../../core/defined.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { ExitCode } from '../../base/exit-code.ts';
import { isThreadSession } from '../../base/open-storage.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { checkKind, parseAnswers, readOnDifference, TALK_OPTIONS } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/graph-move.ts';
import { findWorkflowRun, WORKFLOW_OPTION } from '../../workflow/find-workflow-run.ts';

/** Goes on where a session was left. */
export const command: Command = {
  options: [
    ['-n, --rounds <n>', 'for so many rounds from there; default: those that were left'],
    ['--answer <id=text>', 'the answer to a question that is pending', 'repeat'],
    ...TALK_OPTIONS,
    WORKFLOW_OPTION,
  ],
  details:
    'After a crash, Ctrl-C or a failure: what was finished is not done again. On the branch that is current; "resume" makes a new one.',
  examples: [
    ['savestate continue', 'the session that was used last'],
    ["savestate continue --session trip --answer '3:boss:reply=Yes'", 'with the answer it waits for'],
    ['savestate continue -n 3', 'three more rounds, also if it had ended after so many'],
  ],
  run: async (context, input) => {
    await context.checkSaving();
    const opened = await context.open();
    const sessionId = await opened.session();
    if (isThreadSession(sessionId)) await refuseThread(context, await resolveRevision(opened, '@'));
    const found = await findWorkflowRun(context, input, sessionId);
    if (found === undefined) return talk(context, input, sessionId);
    checkKind(input, 'workflow');
    const { runWorkflow } = await import('../../workflow/run-workflow.ts');
    const said = { answers: input.texts('answer'), onDifference: readOnDifference(input), user: input.text('user') };
    return runWorkflow(context, { ...found, ...said, sessionId, input: undefined, checkpointId: undefined });
  },
};

async function talk(context: Context, input: CommandInput, sessionId: string): Promise<ExitCode | undefined> {
  const { holdTalk } = await import('../../team/hold-talk.ts');
  const said = withoutUndefined({ rounds: input.count('rounds'), answers: parseAnswers(input.texts('answer')) });
  return holdTalk(context, input, ({ talk, following }) => talk.resume(sessionId, { ...said, ...following }));
}
