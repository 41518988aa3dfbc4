import type { Command } from '../../base/command.ts';
import { noteOperation } from '../../place/own-files.ts';
import { tellGraphMove } from '../../thread/thread-step.ts';

/** Makes another branch current. */
export const command: Command = {
  arguments: '<branch>',
  details: 'The next program that opens the session without naming a branch continues there.',
  examples: [['savestate switch what-if', 'continue on the branch what-if']],
  run: async (context, input) => {
    const opened = await context.open();
    const sessionId = await opened.session();
    const name = input.need(0, 'which branch');
    const before = await opened.manager.currentBranch(sessionId);
    await opened.manager.switchBranch(sessionId, name);
    await noteOperation(context, {
      sessionId,
      summary: `switch from branch "${before}" to "${name}"`,
      undo: [{ step: 'switch', kind: 'branch', name: before }],
    });
    await context.answer(
      { sessionId, branch: name },
      () => `Branch "${name}" of session "${sessionId}" is current now.\n`,
    );
    const headId = await opened.findName(sessionId, 'branch', name);
    if (headId !== undefined) tellGraphMove(context, await opened.manager.open(headId));
  },
};
