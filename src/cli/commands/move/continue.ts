import { InvalidInputError } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import type { Command, OpenStorage } from '../../base/command.ts';
import { formatFlags } from '../../base/command-input.ts';
import { parseAnswers, TALK_OPTIONS, WORKFLOW_OPTION } from '../../team/talk-options.ts';
import { refuseThread } from '../../thread/thread-step.ts';

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
    const head = await opened.manager.open(await opened.head());
    await refuseThread(context, head);
    const place = await findWorkflowPlace(context, input, head);
    if (place !== undefined) {
      const { runWorkflow } = await import('../../workflow/run-workflow.ts');
      return runWorkflow(context, input, { ...place, sessionId });
    }
    const { holdTalk } = await import('../../team/run-output.ts');
    const order = { sessionId, rounds: input.limit('rounds'), answers };
    return holdTalk(context, input, ({ talk, following }) => talk.run(order, following));
  },
};

/** How runs that wait for somebody are marked: workflows, and teams. */
const WAITING = ['waiting', 'waiting_for_input'];
/** Those who wait for somebody are among the checkpoints that were saved last. */
const MAX_LOOKED_AT = 200;

/** Refuses answers that may be meant for another session than the one used last: several ask a question of that name. */
async function refuseAmbiguous({ manager }: OpenStorage, last: string, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const asking = new Set<string>();
  for (const status of WAITING)
    for (const { id, sessionId } of (await manager.list({ status }, { limit: MAX_LOOKED_AT })).checkpoints) {
      const head = await manager.open({ sessionId, at: '@' }).catch(() => undefined); // not readable: not in the way
      if (head?.id === id && (await asks(manager, head, ids))) asking.add(sessionId);
    }
  if (asking.size < 2) return;
  const names = [...asking].toSorted().join(', ');
  throw new InvalidInputError(
    `Several sessions wait for an answer to "${ids.join('", "')}": ${names}. The one used last is ${last}. Name the one you mean:${formatFlags({ session: last })}`,
    { details: { sessions: [...asking], requests: ids } },
  );
}

/** Whether a run still asks one of these. */
async function asks(
  manager: CheckpointManager,
  { id, sessionId }: Checkpoint,
  ids: readonly string[],
): Promise<boolean> {
  const { findOpenRequests } = await import('../../../view/requests.ts');
  const place = { sessionId, branch: await manager.currentBranch(sessionId), state: await manager.load(id) };
  return (await findOpenRequests(manager, place)).some((request) => ids.includes(request.id));
}
