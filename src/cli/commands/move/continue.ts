import type { Command } from '../../base/command.ts';
import { refuseAmbiguous } from '../../team/refuse-ambiguous.ts';
import { parseAnswers, TALK_OPTIONS, WORKFLOW_OPTION } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/graph-move.ts';

/** Goes on where a session was left. */
export const command: Command = {
  options: [
    ['-n, --rounds <n>', 'number of rounds; default: those that were left'],
    ['--answer <id=text>', 'the answer to an open question', 'repeat'],
    ...TALK_OPTIONS,
    WORKFLOW_OPTION,
  ],
  details: `After a crash, Ctrl-C or a failure: finished work is not repeated. Continues the current branch; "resume" creates a new one.
Without --session, an answer is refused if several sessions have an open question with that id.`,
  examples: [
    ['savestate continue', 'the most recently used session'],
    ["savestate continue --session trip --answer '3:boss:reply=Yes'", 'with the answer it waits for'],
    ['savestate continue -n 3', 'three more rounds, even after a round limit'],
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
