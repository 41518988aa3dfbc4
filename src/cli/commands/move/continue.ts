import type { Command } from '../../base/command.ts';
import { refuseAmbiguous } from '../../team/refuse-ambiguous.ts';
import { parseAnswers, TALK_OPTIONS, WORKFLOW_OPTION } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/graph-move.ts';

/** Goes on where a session was left. */
export const command: Command = {
  options: [
    ['-n, --rounds <n>', 'for so many rounds from there; default: those that were left'],
    ['--answer <id=text>', 'the answer to a question that is pending', 'repeat'],
    ...TALK_OPTIONS,
    WORKFLOW_OPTION,
  ],
  details: `After a crash, Ctrl-C or a failure: what was finished is not done again. On the branch that is current; "resume" makes a new one.
Without --session, an answer is refused if several sessions ask a question of that name.`,
  examples: [
    ['savestate continue', 'the session that was used last'],
    ["savestate continue --session trip --answer '3:boss:reply=Yes'", 'with the answer it waits for'],
    ['savestate continue -n 3', 'three more rounds, also if it had ended after so many'],
  ],
  run: async (context, input) => {
    const { findWorkflowPlace, openRun } = await import('../../workflow/workflow-file.ts');
    const opened = await openRun(context, input);
    const sessionId = await opened.session();
    const answers = parseAnswers(input.texts('answer'));
    if ((await context.namedSession()) === undefined) await refuseAmbiguous(opened, sessionId, Object.keys(answers));
    const head = await opened.openCheckpoint(await opened.head());
    await refuseThread(context, head);
    const place = await findWorkflowPlace(context, input, head);
    if (place !== undefined) {
      const { runWorkflow } = await import('../../workflow/run-workflow.ts');
      return runWorkflow(context, input, { ...place, sessionId });
    }
    const { holdTalk } = await import('../../team/run-output.ts');
    const said = { rounds: input.count('rounds'), answers };
    return holdTalk(context, input, ({ talk, following }) => talk.resume(sessionId, { ...said, ...following }));
  },
};
